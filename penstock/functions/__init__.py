"""What functions there are: names, argument types and result types, apart from how they compute."""
