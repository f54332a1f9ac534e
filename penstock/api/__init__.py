"""The Python interface: databases, queries, started queries, live engines, and how engines run
them."""
