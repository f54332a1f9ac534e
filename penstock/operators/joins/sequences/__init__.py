"""SEQUENCE and AS OF: tuples of two inputs that follow each other, decided when it is final."""
