"""What tasks do before the shuffle: bounds, messages to buckets, stateless ways."""
