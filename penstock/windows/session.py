"""Session windows: tuples of a group that follow each other closely, for as long as they do.

A session ends GAP after its last tuple, and at most MAX after its first.  A tuple belongs to the
session before it if it comes before that one's end; otherwise it begins a session of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.windows.category import Category
from penstock.windows.window import Stream, WindowId, ascending, require_positive


@dataclass(frozen=True, slots=True)
class Session:
    """Every partition has sessions of its own, so an id is the start of a session and its
    partition.  Where a session ends depends on the tuples, so it cannot be said from an id alone.

    >>> from penstock.windows.window import WindowItem
    >>> T = [WindowItem(10), WindowItem(31), WindowItem(14), WindowItem(19)]
    >>> session = Session(gap=6)
    >>> session.windows(T), session.extent((10, ()), T), session.bounds((10, ()), T)
    ([(10, ()), (31, ())], [0, 2, 3], (10, 25))
    >>> Session(gap=6, longest=8).windows(T)
    [(10, ()), (19, ()), (31, ())]
    """

    gap: int
    longest: int | None = None  # MAX

    category: ClassVar[Category] = Category.FORWARD_CONTEXT_AWARE

    def __post_init__(self) -> None:
        require_positive("GAP", self.gap)
        if self.longest is not None:
            require_positive("MAX", self.longest)

    @property
    def shortest(self) -> int:
        """How long a session of one tuple is."""
        return self.end(0, 0)

    def end(self, first: int, last: int) -> int:
        """Where a session ends that begins with a tuple and has come to another."""
        end = last + self.gap
        return end if self.longest is None else min(end, first + self.longest)

    def sessions(self, stream: Stream) -> dict[WindowId, list[int]]:
        """The arrival numbers of the tuples of every session, by id."""
        found: dict[WindowId, list[int]] = {}
        latest: dict[object, tuple[WindowId, int]] = {}  # by partition: id and end
        for t in sorted(range(len(stream)), key=lambda t: stream[t].value):
            value, partition = stream[t].value, stream[t].partition
            w, end = latest.get(partition, ((value, partition), value))
            if value >= end:
                w = (value, partition)
            assert isinstance(w, tuple)
            latest[partition] = (w, self.end(w[0], value))
            found.setdefault(w, []).append(t)
        return {w: sorted(members) for w, members in found.items()}

    def windows(self, stream: Stream) -> list[WindowId]:
        return ascending(self.sessions(stream))

    def extent(self, w: WindowId, stream: Stream) -> list[int]:
        return self.sessions(stream).get(w, [])

    def wids(self, t: int, stream: Stream) -> list[WindowId]:
        return [w for w, members in self.sessions(stream).items() if t in members]

    def bounds(self, w: WindowId, stream: Stream) -> tuple[int, int]:
        values = [stream[t].value for t in self.extent(w, stream)]
        return min(values), self.end(min(values), max(values))

    def closes_at(self, w: WindowId, stream: Stream) -> int:
        """A later tuple at or above the end is in none of these."""
        return self.bounds(w, stream)[1]
