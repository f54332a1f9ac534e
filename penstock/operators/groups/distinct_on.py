"""DISTINCT ON: of every key in a window one row, the first or the last by time."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.expressions.compile import compile_expression
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.groups.chosen_rows import ChosenRows
from penstock.operators.open_results import OpenResults, open_spans
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import to_ticks
from penstock.operators.windows.id_ranges import id_ranges, last_closed
from penstock.operators.windows.results import Results
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.state.chunks import ChunkStore


class DistinctOnOperator(Base):
    def __init__(self, node: DistinctOn) -> None:
        self._window, self._type = node.window, node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._rows = ChosenRows(node)
        self._results = Results(node)
        self._next: Bound = BEGINNING  # the first window that has not been given out

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        broken = (None, None) if batch.broken is None else self._bound.broken(batch)
        ranges = id_ranges(self._window, ticks, *broken)
        if ranges.missed is not None:
            yield ranges.missed.late_rows(batch.rows, self._type, BIGINT)
        self._rows.add(batch.rows, ticks, ranges.first, ranges.stop)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._bound.promised(progress)
        last: Bound = bound
        if bound not in (BEGINNING, END):
            last = last_closed(self._window, int(bound))
        for wid, rows in self._rows.windows(self._next, last):
            self._results.add(wid, self._rows.choice.columns(rows))
            yield from self._results.many()
        self._next = max(self._next, last + 1)
        self._rows.forget(self._next)
        batch = self._results.batch()
        if batch is not None:
            yield batch
        yield self._results.progress(last, progress.ended)

    def rows_held(self) -> int:
        return len(self._rows)

    def open_results(self) -> OpenResults:
        return open_spans(*self._rows.spans(self._next))

    def save(self, store: ChunkStore) -> None:
        panes = self._rows.save(store)
        saved = {"results": self._results.save(), "next": self._next}
        store.put("run", {**saved, "panes": panes})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._results.load(saved["results"])
            self._next = saved["next"]
            self._rows.load(store, saved["panes"])
