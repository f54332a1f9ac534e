"""FROM: relations by name, joins and what bounds them, sub-queries."""
