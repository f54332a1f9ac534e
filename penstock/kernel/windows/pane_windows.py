"""Windows of one query over panes that it shares with others: its view of the panes, and the
operator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_predicate
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import Folder, Partials
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.operator import Item, Metrics, OpenResults, at_once, bytes_of
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.panes import Change, KeptPanes, Panes, contents_over
from penstock.kernel.windows.results import Missed
from penstock.model.arrays import Codes, Mask, floor_div
from penstock.model.punctuation import BEGINNING, Bound
from penstock.plan.nodes.aggregation import WindowsOfPanes

# The panes of several queries as one of them sees them.


class PanesOfQuery(Panes):
    """Shared panes as one query sees them.

    Some aggregates of panes, from where the query has come to: what it drops, others may still
    need.  An aggregate without a place is the number of rows.
    """

    def __init__(self, whole: KeptPanes, folder: Folder, aggregates: Sequence[int | None]) -> None:
        super().__init__(folder)
        self._whole = whole
        self._aggregates = tuple(aggregates)
        self.passed: Bound = BEGINNING  # below it, nothing is needed any more

    def open(self, number: int) -> Partials:  # noqa: ARG002
        raise AssertionError("a query does not fold into panes that it shares")

    def get(self, number: int) -> Partials | None:
        pane = self._whole.get(number) if number >= self.passed else None
        if pane is None:
            return None
        parts = [pane.rows if place is None else pane.parts[place] for place in self._aggregates]
        return Partials(pane.rows, parts)

    def drop(self, number: int) -> None:
        self.passed = max(self.passed, number + 1)

    def drop_before(self, number: int) -> None:
        self.passed = max(self.passed, number)

    @property
    def _numbers_left(self) -> list[int]:
        numbers = self._whole.numbers
        return numbers[bisect_left(numbers, self.passed) :]

    def numbered(self) -> list[tuple[int, Partials]]:
        found = [(number, self.get(number)) for number in self._numbers_left]
        return [(number, pane) for number, pane in found if pane is not None]

    def renumber(self, change: Change) -> None:
        """No-op: panes are renumbered where they are kept."""

    def lowest(self) -> int | None:
        return self.lowest_from(self.passed)

    def lowest_from(self, number: Bound) -> int | None:
        numbers = self._whole.numbers
        place = bisect_left(numbers, max(number, self.passed))
        return numbers[place] if place < len(numbers) else None

    def highest(self) -> int | None:
        numbers = self._whole.numbers
        return numbers[-1] if numbers and numbers[-1] >= self.passed else None

    def between(self, begin: int, end: int) -> list[int]:
        first = begin if self.passed == BEGINNING else max(begin, int(self.passed))
        return self._whole.between(first, end)


# The windows of one query, made of panes that it shares with others.


class FoldsPanes(Protocol):
    """An operator that folds tuples into panes for several queries."""

    def join(self, user: WindowsOfPanesOperator) -> None: ...

    def remove_user(self, user: WindowsOfPanesOperator) -> None: ...

    def gather(self) -> None:
        """Fold all rows that have come."""
        ...


class WindowsOfPanesOperator(Paned):
    """Emits windows as `Paned` does.  Only tuples that broke a bound come to it: which windows
    these miss is decided here, and they count in the others one by one."""

    def __init__(self, node: WindowsOfPanes) -> None:
        super().__init__(node.aggregate)
        self.predicate = node.predicate
        schema = node.input.schema
        self._holds = None if node.predicate is None else compile_predicate(node.predicate, schema)
        self._folding: FoldsPanes | None = None
        self._settle_panes: Callable[[], None] | None = None
        self._passed_before: Bound = BEGINNING  # when it was saved
        self.name = ""
        self._changed: Callable[[], None] | None = None

    # --- what it shares --------------------------------------------------------------------------

    def share(
        self, folding: FoldsPanes, name: str, changed: Callable[[], None] | None = None
    ) -> None:
        """Join the shared panes, for all tuples from now on.  `name` identifies the query after a
        restart.  `changed` is called when others have changed what it has to save."""
        self.name, self._changed = name, changed
        folding.join(self)
        self._folding = folding

    def leave(self) -> None:
        """Leave the shared panes; these windows are not asked for any more."""
        if self._folding is not None:
            self._folding.remove_user(self)

    def use(
        self,
        panes: KeptPanes,
        pane: int,
        aggregates: Sequence[int | None],
        settle: Callable[[], None],
    ) -> None:
        """The panes, how long they are, where its own aggregates are in them, and how to have all
        in them that has been folded."""
        self._settle_panes = settle
        self.pane = pane
        self.per_window = self.window.range // pane
        self.per_slide = self.window.slide // pane
        self.panes = self._own = PanesOfQuery(panes, self.folder, aggregates)
        self._own.passed = self._passed_before
        self.contents = contents_over(self.folder, self.panes)

    def number_groups_by(self, keys: KeyCodes) -> None:
        self.folder.keys = keys

    @property
    def passed(self) -> Bound:
        """First pane that is still needed."""
        return self._own.passed if isinstance(self.panes, PanesOfQuery) else BEGINNING

    def mark_late(self, live: Mask) -> None:
        for straggler in self.stragglers:
            live[straggler.codes] = True

    def renumber(self, codes: Codes, place: Codes) -> None:
        self._renumber(codes, place)
        if self.stragglers and self._changed is not None:
            self._changed()

    def _settle(self) -> None:
        """Bring the panes up to date; the operator that folds them does so before it hands on
        progress."""
        if self._settle_panes is not None:
            self._settle_panes()

    def open_results(self) -> OpenResults:
        if self._folding is not None:
            self._folding.gather()
        return super().open_results()

    # --- tuples that have broken a bound ---------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if self._holds is not None:
            batch = batch.filter(pa.array(np.asarray(self._holds(batch.rows))))
        if not batch.num_rows:
            return
        ticks = self._ticks(batch.rows)
        _, bounds = self._bound.broken(batch)
        first, stop = self.window.wid_bounds(ticks)
        open_ = floor_div(bounds, plus=-self.window.origin, by=self.window.slide)
        from_ = np.minimum(np.maximum(open_, first), stop)
        self._fold_stragglers(batch.rows, ticks, from_, stop)
        missing = np.flatnonzero((open_ > first) & (first < stop))
        if len(missing):
            missed = Missed(missing, bounds[missing], first[missing], from_[missing] - 1)
            yield missed.late_rows(batch.rows, self.attribute_type, self.node.schema.fields[0].type)

    def _forget_keys(self) -> None:
        """No-op: the operator that folds the panes knows which keys all queries are done with."""

    # --- what it holds ---------------------------------------------------------------------------

    def rows_held(self) -> int:
        return 0

    def metrics(self) -> Metrics:
        held = bytes_of([self.stragglers, getattr(self.contents, "_content", None)])
        return Metrics(0, held, self.open_results().count)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Panes are saved where they are folded."""
        passed = None if self.passed == BEGINNING else int(self.passed)
        store.put("run", {**self._run(), "passed": passed})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._load_run(saved)
        if saved["passed"] is not None:
            self._passed_before = saved["passed"]
            if isinstance(self.panes, PanesOfQuery):
                self._own.drop_before(saved["passed"])
