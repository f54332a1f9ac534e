"""Joins: tuples of two inputs that belong together by key and time."""
