"""How many windows one tuple or one promise may bring about.

A window is given out even if it holds the same tuples as the one before it.  So a mistake in one
row (a time in the year 9999) or in a query (RANGE 1 WEEK, SLIDE 1 MICROSECOND) can stand for more
windows than anybody waits for.  Those are refused with their number.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import RunError
from penstock.windows.rows import RowWindow
from penstock.windows.sliding import Sliding

MOST_WINDOWS: Final = 10_000_000
"""Windows in a row that hold the same tuples, where they are given out one after the other."""

MOST_KEPT: Final = 100_000
"""The same where something is computed and kept for each of them."""

MOST_REMEMBERED: Final = 1_000_000
"""The same where they are given out one after the other, but have to be remembered."""


def per_tuple(window: Sliding | RowWindow) -> int:
    """How many windows a tuple is in, at most.

    >>> per_tuple(Sliding(range=10, slide=3))
    4
    """
    return 1 if window.range is None else -(-window.range // window.slide)


def too_many(windows: int, upto: str, most: int) -> RunError:
    """`upto` is where the windows come to: the value that brings them about."""
    return RunError(
        f"up to {upto} there are {windows:,} windows in a row that hold the same tuples",
        expected=f"at most {most:,}",
        hint="FUTURE LIMIT in the PROGRESS clause keeps such tuples away; or a longer SLIDE",
    )
