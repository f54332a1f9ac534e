"""`penstock demo`: network links whose packets come late, out of order, or not at all."""
