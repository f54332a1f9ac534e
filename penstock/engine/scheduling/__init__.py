"""Who is executed next: the cycle, connected parts, and when clocks are looked at."""
