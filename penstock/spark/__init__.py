"""The Spark host: the kernel's operators inside the tasks of Spark jobs, streaming or batch."""
