"""The physical plan: what runs, for which host; made by the optimizer, executed by the hosts."""
