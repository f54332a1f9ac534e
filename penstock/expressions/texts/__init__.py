"""Functions and conditions on columns of texts, and columns as texts."""
