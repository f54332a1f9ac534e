"""Better plans for operators that are at work, by what has been measured of them."""
