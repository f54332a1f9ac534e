"""Joins of any number of inputs in one operator."""
