"""Expressions over one tuple: names resolved, types checked, constants tried."""
