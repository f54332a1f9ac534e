"""Approximate aggregates: sketches of the groups with many values."""
