"""What a plan means, in texts that can be compared: whether state belongs to it."""
