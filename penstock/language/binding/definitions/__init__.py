"""CREATE STREAM and TABLE, SPLIT, and rows that are written out."""
