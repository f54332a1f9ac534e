"""OVER: rows seen beside others of their partition."""
