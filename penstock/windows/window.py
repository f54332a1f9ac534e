"""The three functions that say what a window means: `windows`, `extent` and `wids`.

They are definitions over a whole finite stream, the oracle of every algorithm.  `extent` and
`wids` are inverses: tuple t is in `extent(w)` exactly if w is in `wids(t)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from penstock.errors import PlanError
from penstock.windows.category import Category


@dataclass(frozen=True, slots=True)
class WindowItem:
    """What a window sees of a tuple: the tick of the windowing attribute, and the partition."""

    value: int
    partition: Hashable = ()


Stream: TypeAlias = Sequence[WindowItem]
"""In arrival order: the arrival number of an item is its index."""

WindowId: TypeAlias = int | tuple[int, Hashable]
"""A number, or a number and the partition that it counts in."""

IdRange: TypeAlias = range
"""Consecutive ids.  (The builtin by another name: windows have a field called `range`.)"""

Id = TypeVar("Id", bound=WindowId)


class AggregateWindow(Protocol[Id]):
    @property
    def category(self) -> Category: ...

    def windows(self, stream: Stream) -> list[Id]:
        """The ids of the windows that the stream gives rise to, ascending."""
        ...

    def extent(self, w: Id, stream: Stream) -> list[int]:
        """The arrival numbers of the tuples in window w, ascending."""
        ...

    def wids(self, t: int, stream: Stream) -> list[Id]:
        """The ids of the windows that tuple number t belongs to, ascending."""
        ...

    def bounds(self, w: Id) -> tuple[int | None, int]:
        """What is shown as window_start and window_end."""
        ...

    def closes_at(self, w: Id) -> int:
        """The smallest v such that 'every later tuple is at or above v' completes window w."""
        ...


AnyWindow: TypeAlias = AggregateWindow[Any]


def number(w: WindowId) -> int:
    """The id without its partition."""
    return w[0] if isinstance(w, tuple) else w


def shares_partition(w: WindowId, item: WindowItem) -> bool:
    """Whether `item` is in the partition that w counts in; a plain id counts in all of them."""
    return not isinstance(w, tuple) or w[1] == item.partition


def ascending(ids: Iterable[WindowId]) -> list[WindowId]:
    """Each id once, by number.

    Partitions need not compare with each other, so equal numbers stay in the order they come in.

    >>> ascending([(1, "b"), (1, None), (0, "b"), (1, "b")])
    [(0, 'b'), (1, 'b'), (1, None)]
    """
    return sorted(dict.fromkeys(ids), key=number)


def require_positive(clause: str, length: int) -> None:
    if length <= 0:
        raise PlanError(f"{clause} must be greater than zero, not {length}")
