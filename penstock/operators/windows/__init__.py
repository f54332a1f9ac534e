"""Window aggregation: an operator for every algorithm and window kind."""
