"""Panes of the tuples that one filter lets through, for all queries with that filter."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_predicate
from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import END, Bound
from penstock.operators.aggregates.build import build
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.windows.panes.kept import KeptPanes
from penstock.operators.windows.shared.windows_of_panes import WindowsOfPanesOperator
from penstock.plan.expressions import Expression
from penstock.plan.nodes.aggregates import NamedAggregate
from penstock.plan.nodes.shared_panes import SharedPanes
from penstock.plan.properties.comparisons import needed_for
from penstock.state.chunks import ChunkStore

_BY_POSITION = ("first", "last")
_MANY = 16  # pieces that are kept for all, until somebody needs his part of them
_TIMES = 8  # as many panes as a query would have alone, at the most


class SortedRows(NamedTuple):
    """Rows in the order of pieces of time: the numbers of those, and where each begins and ends."""

    rows: Rows
    numbers: Ints
    cuts: Ints


class PanePart:
    """`calls` are its aggregates out of those of all parts that it is made of, `number` tells parts
    apart, and `turn` is that of the last piece which had been handed over when it was written, or
    began."""

    def __init__(
        self,
        node: SharedPanes,
        predicate: Expression | None,
        pane: int,
        users: Sequence[WindowsOfPanesOperator],
        calls: Sequence[NamedAggregate],
        number: int,
        turn: int = 0,
    ) -> None:
        schema = node.input.schema
        self.number = number
        self.turn = turn
        self.pane = pane
        self.predicate = predicate
        self.holds = None if predicate is None else compile_predicate(predicate, schema)
        self.needed = None if predicate is None else needed_for(predicate)
        wanted = {each.call for user in users for each in user.node.aggregates}
        found = [(place, each) for place, each in enumerate(calls) if each.call in wanted]
        self._places = [place for place, each in found if not counts_rows(each)]
        self.calls = own = [calls[place] for place in self._places]
        self.holistic = any(build(each.call).holistic for each in own)
        self._positioned = any(each.call.function.name in _BY_POSITION for each in own)
        self.folder = Folder(node.keys, own, schema, node.key_order)
        self.panes = KeptPanes(self.folder)
        self.users = list(users)
        self._later: list[tuple[int, Partials, Codes]] = []
        self._lowest_later: Bound = END
        known = {each.call: place for place, each in enumerate(own)}
        for user in users:
            places = [known.get(each.call) for each in user.node.aggregates]
            user.use(self.panes, pane, places, self.settle)

    def fold(self, batch: pa.RecordBatch, order: Ints | None, some: SortedRows, unit: int) -> bool:
        """Rows of a batch that are cut into pieces of `unit` ticks; `order` is theirs in it.
        Whether there are any."""
        rows, cuts = some.rows, some.cuts
        positions = rows.positions if self._positioned else rows.codes  # nobody looks at them
        rows = Rows(rows.codes, positions, [rows.arguments[place] for place in self._places])
        if self.holds is not None:
            mask = np.asarray(self.holds(batch))
            chosen = np.flatnonzero(mask if order is None else mask[order])
            if not len(chosen):
                return False
            if len(chosen) < len(rows):
                rows, cuts = self._taken(rows, chosen), np.searchsorted(chosen, cuts)
        numbers = some.numbers // (self.pane // unit)
        changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        first = [0, *changes.tolist()]
        for begin, end in zip(first, [*first[1:], len(numbers)], strict=True):
            if cuts[begin] < cuts[end]:
                pane = self.panes.open(int(numbers[begin]))
                self.folder.fold(pane, rows.slice(int(cuts[begin]), int(cuts[end])))
        return True

    def leave_for_later(self, number: int, partials: Partials, codes: Codes) -> None:
        """Let somebody `add` it who needs it: that takes a moment for every part, and whoever hands
        it over has many of them."""
        self._later.append((number, partials, codes))
        self._lowest_later = min(self._lowest_later, number)
        if len(self._later) >= _MANY:
            self.settle()

    def settle(self) -> None:
        """Nothing is left for later."""
        if self._later:
            later, self._later, self._lowest_later = self._later, [], END
            for each in later:
                self.add(*each)

    def add(self, number: int, partials: Partials, codes: Codes) -> None:
        """Some groups of partial results of the aggregates of all parts, in the order of their
        keys' numbers, to a pane."""
        own = Partials(partials.rows, [partials.parts[place] for place in self._places])
        taken = self.folder.take_apart(own, codes)
        if taken.rows.rows.any():
            self.panes.add(number, taken)

    def let_go(self, user: WindowsOfPanesOperator) -> bool:
        """Whether the query was one of its own."""
        if user not in self.users:
            return False
        self.users.remove(user)
        return True

    def _taken(self, rows: Rows, chosen: Ints) -> Rows:
        if self._positioned:
            return rows.take(chosen)
        codes = rows.codes[chosen]
        return Rows(codes, codes, rows.arguments_at(chosen))

    def forget(self) -> bool:
        """The panes that no query needs any more; whether a store may have some of them."""
        passed = min((user.passed for user in self.users), default=None)
        if passed is not None and self.panes.numbers and self.panes.numbers[0] < passed:
            self.panes.forget(passed)  # type: ignore[arg-type]
            return self.panes.has_gone
        return False

    @property
    def needed_from(self) -> Bound:
        """Where its first pane begins, in ticks from the origin: nothing before it is needed."""
        numbers = self.panes.numbers
        lowest = min(numbers[0], self._lowest_later) if numbers else self._lowest_later
        return lowest if lowest == END else lowest * self.pane

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore, turn: int) -> None:
        """Write the panes that have changed, with all that has been handed over."""
        self.settle()
        self.turn = turn
        self.panes.save(store)


def counts_rows(aggregate: NamedAggregate) -> bool:
    """Panes count their rows anyway."""
    call = aggregate.call
    return call.function.name == "count" and not call.arguments and call.where is None


def common_panes(
    users: Sequence[WindowsOfPanesOperator],
) -> list[tuple[int, list[WindowsOfPanesOperator]]]:
    """Queries that have panes in common: those whose greatest common pane is not much smaller than
    what each would have alone.  The length of the panes, and the queries."""
    found: list[tuple[int, list[WindowsOfPanesOperator]]] = []
    for user in sorted(users, key=lambda each: each.pane):
        for place, (pane, others) in enumerate(found):
            common = gcd(pane, user.pane)
            if common * _TIMES >= others[0].pane:
                found[place] = common, [*others, user]
                break
        else:
            found.append((user.pane, [user]))
    return found
