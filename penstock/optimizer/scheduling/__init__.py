"""Dataflow expressions that run at the same time: what they get in each other's way with."""
