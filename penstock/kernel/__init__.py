"""Columnar operators with explicit state."""
