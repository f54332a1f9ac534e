"""Functions on columns of times, and times as texts."""
