"""OVER: values computed from other rows of the partition."""
