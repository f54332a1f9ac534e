"""Panes: partial results of stretches that do not overlap, of which windows are made."""
