"""Joins, look-ups, differences, sequences."""
