"""Expressions, functions and whole plans that Catalyst computes, wherever Spark gives exactly
Penstock's values."""
