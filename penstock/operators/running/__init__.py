"""Answers that never complete: what changes is said at once, as rows taken back and given."""
