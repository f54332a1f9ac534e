"""What follows from a plan without running it."""
