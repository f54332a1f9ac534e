"""From SQL text to a logical plan: `parsing` makes syntax of it, `binding` gives it meaning."""
