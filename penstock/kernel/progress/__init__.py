"""Progress of sources: punctuations, bounds and low-watermarks."""
