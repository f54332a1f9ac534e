"""State that moves from one window algorithm to another."""
