"""Queries that run on Spark: jobs, streaming and batch runs, checkpoints, accounts."""
