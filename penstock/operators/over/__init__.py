"""Rows beside each other: OVER, top-n and the like."""
