"""Panes that several queries make their windows of."""
