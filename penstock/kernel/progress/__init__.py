"""How far each source has come: bounds, low-watermarks, punctuations."""
