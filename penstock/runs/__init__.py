"""What every run has, whichever engine it is on: options, targets, outlets, accounts, status."""
