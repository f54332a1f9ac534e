"""How joins of several inputs are put together."""
