"""Sinks, which take results: their protocol, and each kind of them."""
