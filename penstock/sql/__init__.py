"""SQL text: the syntax tree, the parser, and the binder that makes plans of it."""
