"""Session windows: from one gap to the next."""
