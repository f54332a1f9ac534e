"""The optimizer: rules that turn logical plans into physical ones with the same results."""
