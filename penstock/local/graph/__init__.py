"""The query graph: operators, buffers, registers, arcs."""
