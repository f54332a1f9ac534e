"""The in-process host: reads sources batch by batch and drives the kernel's operators."""
