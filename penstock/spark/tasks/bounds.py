"""What the rows of one task say about the progress of their sub-sources, and nothing else.

A task does not know what had been promised before its micro-batch.  It reports enough for whoever
knows that (see `stateful/registers.py`) to find the bound before every one of its rows: the higher
one of what had been promised before the micro-batch and what the rows before it, in the same task,
promise.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.progress import Rule, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.promises.running_bounds import NOTHING, RunningBounds, SubSourceBound
from penstock.state.chunks import Tree


@dataclass(frozen=True, slots=True)
class Report:
    """One sub-source in one task.  `others` are the bounds of sub-sources, by their number in the
    task, that moved between the first row of the one before and the first row of this one, with how
    many tuples SLACK held back then: a newcomer joins at the lowest bound at that moment."""

    key: str
    bound: Bound
    rows: int
    recent: Ints  # what SLACK holds back
    others: list[tuple[int, Bound, int]] = field(default_factory=list)

    def save(self) -> Tree:
        others = [list(other) for other in self.others]
        return [self.key, self.bound, self.rows, self.recent, others]

    @staticmethod
    def load(saved: Tree) -> Report:
        key, bound, rows, recent, others = saved
        return Report(
            key, bound, rows, recent, [(place, each, held) for place, each, held in others]
        )


class TaskBounds(RunningBounds):
    """Running bounds that start from nothing in every task."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.places: Ints | None = None  # the sub-sources of the tuples that came last, by report
        self.place = 0  # the one of all of them, if there are no places
        self.numbers: Ints | None = None  # under SLACK: their numbers in their sub-sources
        self._counts: dict[Hashable, int] = {}
        self._order: dict[Hashable, int] = {}
        self._others: dict[Hashable, list[tuple[int, Bound, int]]] = {}
        self._seen: dict[Hashable, tuple[Bound, int]] = {}

    def before(self, keys: list[Hashable], codes: Ints, ticks: Ints, promised: Ints | None) -> Ints:
        before = super().before(keys, codes, ticks, promised)
        tuples = ticks != NOTHING if promised is not None else slice(None)
        codes = codes[tuples]
        self.places = np.array([self._order.get(key, -1) for key in keys], np.int64)[codes]
        if isinstance(self._rule, Slack):
            self.numbers = np.empty(len(codes), np.int64)
        for code in np.unique(codes).tolist() if len(keys) > 1 else [0]:
            mine = codes == code
            count = self._counts.get(keys[code], 0)
            size = int(np.count_nonzero(mine))
            if self.numbers is not None:
                self.numbers[mine] = np.arange(count, count + size)
            self._counts[keys[code]] = count + size
        return before

    def kept_by(self, keys: list[Hashable], lowest: int, highest: int) -> bool:
        if not super().kept_by(keys, lowest, highest):
            return False
        self.places, self.place = None, self._order[keys[0]]
        self._counts[keys[0]] = self._counts.get(keys[0], 0) + 1  # that it spoke is enough
        return True

    def _let_in(self, key: Hashable) -> None:
        """Everybody is a newcomer to the task; whether to the source, others know."""
        now = {other: (each.bound, len(each.recent)) for other, each in self._bounds.items()}
        self._others[key] = [
            (self._order[other], *state)
            for other, state in now.items()
            if state != self._seen.get(other, (BEGINNING, 0))
        ]
        self._seen = now
        self._order[key] = len(self._order)
        self._bounds[key] = SubSourceBound(self._rule, BEGINNING)

    def reports(self, names: list[str]) -> list[Report]:
        """In the order of first appearance."""
        return [
            Report(name, bound.bound, self._counts.get(key, 0), bound.recent, self._others[key])
            for name, (key, bound) in zip(names, self._bounds.items(), strict=True)
        ]

    @property
    def keys(self) -> list[Hashable]:
        """The sub-sources in the order of first appearance."""
        return list(self._order)
