"""The query graph: nodes, the buffers between them, and what each has promised."""
