"""The in-process host."""
