"""Codes for keys, and rows folded by them."""
