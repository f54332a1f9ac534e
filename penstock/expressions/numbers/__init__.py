"""Functions on columns of numbers."""
