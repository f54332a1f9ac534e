"""Stateful tasks: buckets of stages, their registers, and their output."""
