"""The live engine: queries are created, altered and dropped while data flows."""
