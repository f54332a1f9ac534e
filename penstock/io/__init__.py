"""Input and output: sources, formats, sinks, durable files."""
