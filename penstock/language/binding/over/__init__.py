"""OVER, QUALIFY, LIMIT and DISTINCT ON: rows by their place among others."""
