"""Windows that count tuples: RANGE n ROWS, and windows that tuples open."""
