"""GROUP BY without windows, DISTINCT, DISTINCT ON."""
