"""Syntax to plan: names are looked up, types checked, windows laid; a module per clause."""
