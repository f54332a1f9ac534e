"""Formats of rows in files: CSV, JSON Lines, Parquet, Arrow, Python values."""
