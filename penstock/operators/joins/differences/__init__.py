"""EXCEPT ON: what is in the window of one input and not in that of the other."""
