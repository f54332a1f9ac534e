"""Operators that bring tuples of several inputs together."""
