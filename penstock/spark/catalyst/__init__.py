"""What Catalyst computes for a query, and what it may not, because Spark would differ."""
