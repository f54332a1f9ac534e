"""Aggregates, the groups that they are of, and answers that run."""
