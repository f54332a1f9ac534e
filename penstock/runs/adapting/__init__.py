"""Plans that change while queries run."""
