"""How rows are written in files: CSV, JSON Lines, Parquet, Arrow, Python values."""
