"""Queries as DataFrames, to be written by Spark: rows, late tuples, rejected rows, counts."""
