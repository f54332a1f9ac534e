"""Signed items: what is folded, compared or made distinct where tuples may be taken back."""
