"""Running answers: results that never complete, as changes."""
