"""The grammar, a module per clause, on sqlglot's tokenizer and expression parser."""
