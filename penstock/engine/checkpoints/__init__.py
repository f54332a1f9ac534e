"""What a run saves, when and where, and how a later one goes on from it."""
