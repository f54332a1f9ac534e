"""Formats of files: CSV, JSON lines and Parquet, block by block."""
