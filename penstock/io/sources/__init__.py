"""Where tuples come from: the protocol of sources, and each kind of them."""
