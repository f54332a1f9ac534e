"""Where tuples come from: files, Arrow data, rows of Python objects and literal VALUES."""
