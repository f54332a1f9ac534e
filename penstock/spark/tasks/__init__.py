"""Stateless tasks before the shuffle: bounds, segments of steps, and messages to buckets."""
