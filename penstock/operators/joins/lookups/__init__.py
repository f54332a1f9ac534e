"""Rows of tables, found for the tuples of a stream."""
