"""Queries that come and go while data does."""
