"""How data comes in: sources in step or side by side, and how far each has been read."""
