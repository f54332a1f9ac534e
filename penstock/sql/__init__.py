"""SQL text: syntax tree, parser, binder."""
