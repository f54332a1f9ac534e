"""Operators over inputs that retract tuples."""
