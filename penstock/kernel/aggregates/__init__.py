"""Aggregate functions, one file per family."""
