"""The stateful step: buckets of a stage, their registers, and whose state it is."""
