"""The kernel: columnar operators that fold tuples as they come and release what is complete."""
