"""Items that are joined at the same time, step by step and in any order of steps, with containers:
timestamps that are raised make the results those of a serial execution (section 3.2 of Getta and
Vossough).

A model of what a scheduler may do, for those who want to see why nothing has to wait; the engine
has operators that work on whole batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Values: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stamped:
    """What an item has become, and the timestamp that it goes by."""

    timestamp: float
    values: Values


@dataclass
class SharedWindow:
    """A window of items or of intermediate results.  `compared` is the highest timestamp of an item
    that has looked at everything in it."""

    contents: list[Stamped] = field(default_factory=list)
    compared: float = float("-inf")

    def record(self, item: Stamped, raises: bool) -> Stamped:
        """→(w): an item that comes too late for one that has looked already is put behind it.  Then
        it meets that one itself, where it goes on."""
        if raises and item.timestamp <= self.compared:
            item = Stamped(self.compared + _LITTLE, item.values)
        self.contents.append(item)
        return item

    def look(self, item: Stamped) -> list[Stamped]:
        """⋈(w): what has a lower timestamp, and agrees in all columns that both have.  A result has
        the timestamp of the item that found it."""
        self.compared = max(self.compared, item.timestamp)
        return [
            Stamped(item.timestamp, {**each.values, **item.values})
            for each in self.contents
            if each.timestamp < item.timestamp and _agree(each.values, item.values)
        ]


_LITTLE = 1e-6  # timestamps of items that arrive are whole numbers


@dataclass(frozen=True, slots=True)
class Record:
    window: str


@dataclass(frozen=True, slots=True)
class Look:
    window: str


Step: TypeAlias = Record | Look


@dataclass
class ConcurrentItems:
    """Expressions, by stream, as steps; what has become of each item, and the steps that are left
    of it.  A step of an item is done for all that the item has become, one after the other, because
    each of these may have a timestamp of its own.

    >>> both = {"r": (Record("r"), Look("s")), "s": (Record("s"), Look("r"))}
    >>> running = ConcurrentItems(both)
    >>> running.arrive("r", {"a": 1}), running.arrive("s", {"a": 1})
    (0, 1)
    >>> [running.step(item) for item in (1, 0, 1, 0)], running.results
    ([True, True, True, True], [])
    >>> running.step(0), running.step(1), running.results
    (False, False, [{'a': 1}])
    """

    expressions: Mapping[str, Sequence[Step]]
    raises: bool = True
    windows: dict[str, SharedWindow] = field(default_factory=dict)
    results: list[Values] = field(default_factory=list)
    _left: list[Iterator[None]] = field(default_factory=list)

    def arrive(self, stream: str, values: Values) -> int:
        """An item of a stream; its number, which is also its timestamp."""
        number = len(self._left)
        self._left.append(self._through(Stamped(number, values), self.expressions[stream]))
        return number

    def step(self, item: int) -> bool:
        """Do the next step of an item; whether there was one."""
        return next(self._left[item], self) is None

    def _through(self, item: Stamped, steps: Sequence[Step]) -> Iterator[None]:
        if not steps:
            self.results.append(item.values)
            return
        first, *others = steps
        window = self.windows.setdefault(first.window, SharedWindow())
        if isinstance(first, Record):
            item = window.record(item, self.raises)
            yield
            yield from self._through(item, others)
            return
        found = window.look(item)
        yield
        for each in found:
            yield from self._through(each, others)


def _agree(one: Values, other: Values) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
