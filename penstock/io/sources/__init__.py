"""Sources of tuples: their protocol, and each kind of them."""
