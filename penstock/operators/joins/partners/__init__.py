"""How a tuple finds its partners: what is kept of every input of a join, in sorted runs."""
