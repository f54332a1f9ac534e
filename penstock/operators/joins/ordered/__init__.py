"""Joins whose results leave in order: the in-order baselines of the papers."""
