"""What a window means: which tuples each window holds, and which windows each tuple is in."""
