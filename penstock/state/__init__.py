"""State as chunks of plain values and arrays, which a host saves as far as they have changed."""
