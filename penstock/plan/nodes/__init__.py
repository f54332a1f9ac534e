"""The nodes of a plan, a module for each family."""
