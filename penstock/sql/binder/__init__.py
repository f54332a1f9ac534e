"""From a syntax tree to a logical plan."""
