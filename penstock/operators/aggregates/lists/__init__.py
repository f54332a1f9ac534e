"""Aggregates of all the rows of a group, one beside the other."""
