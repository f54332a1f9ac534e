"""What the parser found, before any name is looked up.  Scalar expressions are sqlglot's nodes."""
