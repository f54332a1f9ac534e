"""Where results go: a table to look at, JSON lines, CSV or Parquet, written whole or not at all."""
