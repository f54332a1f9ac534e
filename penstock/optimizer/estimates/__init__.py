"""What a plan will take: sizes of what comes, measured costs of steps, and times that follow."""
