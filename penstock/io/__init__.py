"""What is read and written: sources, formats, sinks, durable files."""
