"""What Python programs use: databases, queries, started queries, and which engine runs them."""
