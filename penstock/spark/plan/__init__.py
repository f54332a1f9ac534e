"""A query cut into Spark's stages, and what the tasks of a stage have to know."""
