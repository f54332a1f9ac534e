"""What sources promise: running bounds, sub-sources, idleness, punctuation, early timers."""
