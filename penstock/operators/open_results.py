"""What an operator has begun and not given out yet, in a form that buckets can be united in.

Windows have numbers, so a window that is open in several buckets is one window; groups, and
partitions of row windows, are each in one bucket only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class OpenResults:
    """Windows as spans of their numbers (the first, and the one after the last), and a count of
    what has no number."""

    spans: tuple[tuple[int, int], ...] = ()
    others: int = 0

    @property
    def count(self) -> int:
        return sum(stop - first for first, stop in self.spans) + self.others

    def __or__(self, other: OpenResults) -> OpenResults:
        """
        >>> (OpenResults(((1, 4),), 2) | OpenResults(((3, 6), (8, 9)))).count
        8
        """
        return OpenResults(_united((*self.spans, *other.spans)), self.others + other.others)

    def save(self) -> Tree:
        return [[list(span) for span in self.spans], self.others]

    @staticmethod
    def load(saved: Tree) -> OpenResults:
        spans, others = saved
        return OpenResults(tuple((first, stop) for first, stop in spans), others)


NOTHING_OPEN = OpenResults()


def open_windows(numbers: Iterable[int]) -> OpenResults:
    """Single windows.

    >>> open_windows([4, 2, 3, 9]).spans
    ((2, 5), (9, 10))
    """
    return OpenResults(_united((number, number + 1) for number in numbers))


def open_spans(*spans: tuple[int, int] | None) -> OpenResults:
    """Windows from one to another; spans without windows, and None, are left out."""
    return OpenResults(_united(span for span in spans if span is not None and span[0] < span[1]))


def _united(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    united: list[tuple[int, int]] = []
    for first, stop in sorted(spans):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(stop, united[-1][1]))
        else:
            united.append((first, stop))
    return tuple(united)
