"""Signed items as tuples that are there for a while: from a positive item to the negative one that
takes it back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from penstock.model.punctuation import END, Bound
from penstock.reference.relation import Row


class Presence(NamedTuple):
    """The number of a positive item, the item, since when it is there, and until before when."""

    number: int
    row: Row
    since: int
    until: Bound


def presences(items: Sequence[tuple[Row, int]]) -> list[Presence]:
    """Of items with their times, in the order in which they come."""
    found: dict[int, Presence] = {}
    for number, taken_back in matched(items):
        row, since = items[number]
        until = END if taken_back is None else items[taken_back][1]
        found[number] = Presence(number, row, since, until)
    return [found[number] for number in sorted(found)]


P = TypeVar("P", int, float)


def matched(items: Sequence[tuple[Row, P]]) -> Iterable[tuple[int, int | None]]:
    """The numbers of positive items, each with that of the negative one that takes it back: among
    those of its lineage, the next one that finds nothing later to take back.  A negative item that
    finds nothing is without effect."""
    open_: dict[Hashable, list[int]] = defaultdict(list)
    partners: dict[int, int | None] = {}
    for number in sorted(range(len(items)), key=lambda number: _order(*items[number])):
        row = items[number][0]
        if row.sign > 0:
            open_[row.lineage].append(number)
            partners[number] = None
        elif open_[row.lineage]:
            partners[open_[row.lineage].pop()] = number
    return partners.items()


def _order(row: Row, position: P) -> tuple[P, int, tuple[int, ...]]:
    """By position.  At one position, items of one tuple come as they happened; those of joined
    tuples may be brought about by one tuple, in no order.  There, what is given comes first, and
    what came first is taken back first: so the latest is left."""
    if len(row.lineage) < 2:
        return position, 0, ()
    return position, -row.sign, tuple(-turn for turn in row.turns)
