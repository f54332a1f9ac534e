"""Operators that keep no tuples: filter, project, union, stamp, and rows put in order."""
