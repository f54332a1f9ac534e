"""Where results go: the protocol of sinks, and each kind of them."""
