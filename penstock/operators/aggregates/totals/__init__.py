"""Aggregates that add up, exactly: counts, sums, what follows from them, and bits."""
