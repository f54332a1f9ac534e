"""Penstock on Spark beside Spark's own `groupBy(window(…))`, in one session."""
