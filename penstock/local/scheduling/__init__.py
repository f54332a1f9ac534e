"""Which operator is executed next, and which source is read next."""
