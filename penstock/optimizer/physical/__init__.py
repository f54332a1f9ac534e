"""Rules that make physical plans and rules that improve them."""
