"""How the next operator is chosen: rules, and the table that says which node has which."""
