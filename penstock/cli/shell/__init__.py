"""`penstock shell`: a prompt for queries that run while others are written."""
