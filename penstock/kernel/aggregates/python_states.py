"""Aggregates written by the user: states are Python objects, one per group.

A slice's rows are accumulated once, when it is first used; from then on states are merged, and
subtracted if the aggregate can.  Nothing that another slice may still use is ever changed: states
are merged into fresh ones.
"""

from __future__ import annotations

from itertools import pairwise
from sys import getsizeof
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.functions.user_functions import Guarded
from penstock.kernel.aggregates.aggregate import Aggregate, ByGroup
from penstock.kernel.aggregates.lists import Runs
from penstock.kernel.state import Tree
from penstock.model.arrays import Codes, Ints, stable_order
from penstock.model.values import to_arrow

_MANY_ROWS = 1 << 16  # to be kept for later


class States(ByGroup):
    """The states of groups that have rows, how many rows those are, and rows not yet in them."""

    def __init__(self, user: Guarded) -> None:
        self.user = user
        self.states: dict[int, Any] = {}
        self.rows: dict[int, int] = {}
        self.waiting = Runs()
        self._waiting = 0
        # rows of states that cannot be saved; None once they are not known any more
        self.kept: Runs | None = None if user.saves else Runs()

    def fold(self, codes: Codes, columns: list[pa.Array], positions: Ints) -> None:
        self.waiting.rows.append((codes, columns, positions))
        self._waiting += len(codes)
        if self._waiting > _MANY_ROWS:
            self.settle()

    def settle(self) -> None:
        """Accumulate the rows that wait, in one call per group."""
        if not self.waiting.rows:
            return
        groups, columns, _ = self.waiting.all()
        order = stable_order(groups)
        columns = [column.take(pa.array(order)) for column in columns]
        different, begins = np.unique(groups[order], return_index=True)
        for group, (begin, end) in zip(
            different.tolist(), pairwise([*begins.tolist(), len(groups)]), strict=True
        ):
            own = [column.slice(begin, end - begin) for column in columns]
            state = self.states[group] if group in self.states else self.user.init()
            self.states[group] = self.user.accumulate(state, own)
            self.rows[group] = self.rows.get(group, 0) + end - begin
        if self.kept is not None:
            self.kept.rows += self.waiting.rows
        self.waiting, self._waiting = Runs(), 0

    def merge(self, other: States) -> None:
        self.settle()
        other.settle()
        for group, state in other.states.items():
            own = self.states[group] if group in self.states else self.user.init()
            self.states[group] = self.user.merge(own, state)
            self.rows[group] = self.rows.get(group, 0) + other.rows[group]
        if self.kept is not None:
            self.kept = None if other.kept is None else Runs(self.kept.rows + other.kept.rows)

    def subtract(self, other: States) -> None:
        self.settle()
        other.settle()
        for group, state in other.states.items():
            self.rows[group] -= other.rows[group]
            if self.rows[group]:
                self.states[group] = self.user.subtract(self.states[group], state)
            else:
                del self.states[group], self.rows[group]
        self.kept = None

    def finish(self, group: int) -> Any:
        return self.user.finish(self.states[group] if group in self.states else self.user.init())

    def take(self, codes: Codes) -> States:
        taken = States(self.user)
        self.settle()
        for place, group in enumerate(codes.tolist()):
            if group in self.states:
                taken.states[place] = self.user.merge(self.user.init(), self.states[group])
                taken.rows[place] = self.rows[group]
        taken.kept = None if self.kept is None else self.kept.take(codes)
        return taken

    def spread(self, codes: Codes) -> States:
        self.settle()
        wide = States(self.user)
        for group, state in self.states.items():
            wide.states[int(codes[group])] = self.user.merge(self.user.init(), state)
            wide.rows[int(codes[group])] = self.rows[group]
        wide.kept = None if self.kept is None else self.kept.spread(codes)
        return wide

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, without objects that the states refer to, which only the user
        knows."""
        kept = 0 if self.kept is None else self.kept.nbytes
        return self.waiting.nbytes + kept + sum(map(getsizeof, self.states.values()))

    def save(self) -> Tree:
        self.settle()
        if self.user.saves:
            groups = list(self.states)
            return {
                "groups": np.array(groups, np.int64),
                "rows": np.array([self.rows[group] for group in groups], np.int64),
                "states": [self.user.save(self.states[group]) for group in groups],
            }
        if self.kept is None:
            raise RunError(
                f"a state of the aggregate {self.user.name} cannot be saved",
                hint="give it the methods save(state) -> bytes and load(bytes) -> state",
            )
        return {"kept": self.kept.save()}

    def load(self, saved: Tree) -> States:
        loaded = States(self.user)
        if "kept" in saved:
            loaded.waiting = Runs.load(saved["kept"])
            loaded.settle()
            return loaded
        groups = saved["groups"].tolist()
        for group, rows, state in zip(groups, saved["rows"], saved["states"], strict=True):
            loaded.rows[group], loaded.states[group] = int(rows), self.user.load(state)
        return loaded


class OfPython(Aggregate[States]):
    """An aggregate written by the user in Python; it can be subtracted if the user's class can."""

    holistic = True  # the state may grow with the rows

    def __init__(self, user: Guarded) -> None:
        self.user = user
        self.differential = user.subtracts

    def new(self, size: int) -> States:  # noqa: ARG002
        return States(self.user)

    def grow(self, partial: States, size: int) -> None:
        pass

    def fold(
        self, partial: States, codes: Codes, arguments: list[pa.Array], positions: Ints
    ) -> None:
        partial.fold(codes, arguments, positions)

    def merge(self, partial: States, other: States) -> None:
        partial.merge(other)

    def subtract(self, partial: States, other: States) -> None:
        partial.subtract(other)

    def take(self, partial: States, codes: Codes) -> States:
        return partial.take(codes)

    def spread(self, partial: States, codes: Codes, size: int) -> States:  # noqa: ARG002
        return partial.spread(codes)

    def save(self, partial: States) -> Tree:
        return partial.save()

    def load(self, saved: Tree) -> States:
        return States(self.user).load(saved)

    def finish(self, partial: States, codes: Codes) -> pa.Array:
        partial.settle()
        results = [partial.finish(group) for group in codes.tolist()]
        return to_arrow(results, self.user.result)
