"""Scalar expressions by definition, on one tuple at a time.

The reference engine computes with them, and columnar evaluation falls back on them.
"""
