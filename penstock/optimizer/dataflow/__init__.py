"""Plans of joins at the level of dataflow: an expression for every input stream, and what it
takes."""
