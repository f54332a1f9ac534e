"""Results that may be taken back: early answers, and late tuples that still count."""
