"""Scheduling: selection of the next operator and of the next source."""
