"""GROUP BY and DISTINCT over progressing keys, and groups that are closed one by one."""
