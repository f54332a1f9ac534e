"""Scalar expressions over whole columns: compiled once, then run on every batch."""
