"""Aggregates that keep the best value of each group."""
