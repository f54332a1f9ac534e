"""When the rows had come that wait in an operator which gives out what it is given.

Rows leave in the order of their times, and are matched here with arrivals in the order of those:
whoever left before whom, the sum of all waiting times is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class WaitingSince:
    """
    >>> waiting = WaitingSince()
    >>> waiting.come(100, 2)
    >>> waiting.come(130, 5)
    >>> list(waiting.leave(4))
    [(100, 2), (130, 2)]
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()

    def come(self, arrived: int, rows: int) -> None:
        self._waiting.append((arrived, rows))

    def refuse(self, rows: int) -> None:
        """So many of those that came last do not wait."""
        waiting = self._waiting
        while rows and waiting:
            arrived, there = waiting.pop()
            if there > rows:
                waiting.append((arrived, there - rows))
                there = rows
            rows -= there

    def clear(self) -> None:
        """Nobody waits: what came and was taken back before it could leave is gone."""
        self._waiting.clear()

    def leave(self, rows: int) -> Iterator[tuple[int, int]]:
        """When so many had come: times, with numbers of rows.  Of rows that an earlier run has
        left behind nobody knows."""
        waiting = self._waiting
        while rows and waiting:
            arrived, there = waiting.popleft()
            if there > rows:
                waiting.appendleft((arrived, there - rows))
                there = rows
            rows -= there
            yield arrived, there
