"""Window aggregation: one file per algorithm or kind of window."""
