"""Nexmark: an auction house as three streams, and the queries that are asked of it."""
