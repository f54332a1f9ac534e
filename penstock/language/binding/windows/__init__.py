"""Windows, in our words and in those of others."""
