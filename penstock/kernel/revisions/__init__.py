"""Results that may be revised."""
