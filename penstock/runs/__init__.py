"""Parts of a run that all engines share: options, targets, outlets, accounts, status,
adaptation."""
