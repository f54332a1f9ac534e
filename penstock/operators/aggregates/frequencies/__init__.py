"""Aggregates of how often each value occurs."""
