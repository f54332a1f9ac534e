"""Slide-by-tuple windows over signed items: every n-th item opens one, positive or negative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, LateRows, Progress, at_once
from penstock.operators.revising.amendment import in_time_of, with_amended
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.partitions import NetPartitions, by_part, taken
from penstock.operators.signed.windows import NO_FLOOR
from penstock.operators.ticks import to_ticks
from penstock.operators.windows.counted.rows import windows_batch
from penstock.operators.windows.results import Missed
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within
from penstock.windows.columns import exceeds_by_at_most
from penstock.windows.rows import Order
from penstock.windows.slide_by_tuple import SlideByTuple

_Found: TypeAlias = tuple[Codes, Ints, list[pa.Array]]  # partitions, ids, keys and results


class SignedSlideByTuple(Base):
    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, SlideByTuple)
        assert node.attribute is not None
        self.node = node
        self._window = node.window
        self._type = node.attribute.type
        self._id_type = node.schema.fields[0].type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._in_time = in_time_of([node.attribute], node.input, asked)
        self._grace = 0 if asked is None else asked.grace(self._type)
        self._waiting = KeptItems(node.input.schema.arrow, tags=2)  # floor, and whether it opens
        self._parts = NetPartitions(node)
        self._highest: Bound = BEGINNING  # of the windows that had results
        self._looked = 0  # how often progress came since partitions were looked through

    # --- items -----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        if self._window.order is Order.RANK:
            given, keys, late = self._in_time.split_signed(batch)
            nothing = np.full(given.num_rows, NO_FLOOR)
            self._waiting.add(given, keys[0], (nothing, nothing))
            yield from late
            return
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        opens = self._opens(batch.rows)
        floors, aside = self._late(batch, ticks)
        yield from aside
        opens &= floors == NO_FLOOR  # their own windows are gone
        self._waiting.add(batch.without_broken(), ticks, (floors, opens.astype(np.int64)))

    def _opens(self, rows: pa.RecordBatch) -> Mask:
        _, numbers = self._parts.numbers.number(rows)
        opens: Mask = numbers % self._window.every == 0
        return opens

    def _late(self, batch: Batch, ticks: Ints) -> tuple[Ints, list[LateRows]]:
        """From which window on items count, and those that missed some."""
        floors = np.full(len(ticks), NO_FLOOR)
        if batch.broken is None:
            return floors, []
        rows, bounds = self._bound.broken(batch)
        below = ticks[rows] < bounds
        rows, bounds = rows[below], bounds[below]
        if not len(rows):
            return floors, []
        _, ends = self._window.wid_bounds(ticks[rows])
        missed = Missed(rows, bounds, ticks[rows], np.minimum(bounds, ends) - 1)
        late = missed.late_rows(batch.rows, self._type, self._id_type)
        if self._grace is None:  # all of them count
            return floors, [late]
        lost = ~exceeds_by_at_most(bounds, ticks[rows], self._grace)
        floors[rows[lost]] = bounds[lost] - self._grace
        return floors, [with_amended(late, ~lost) if self._grace else late]

    # --- windows ---------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (bound,) = self._in_time.final(progress)
        settled = self._waiting.below(bound)
        if settled is not None:
            found = list(self._settled(*settled))
            if found:
                yield self._rows(found)
        self._forget(bound)
        yield self._promise(bound, progress.ended)

    def _settled(self, batch: Batch, ticks: Ints, tags: Ints) -> Iterator[_Found]:
        """Take in items in the order in which they happen, and give the windows that they open."""
        floors, opens = tags
        by_rank = self._window.order is Order.RANK
        opening = self._opens(batch.rows) if by_rank else opens > 0
        parts = self._parts.numbers.codes(batch.rows)
        first, stop = self._window.wid_bounds(ticks)
        self._parts.settle(batch, parts, ticks, np.maximum(first, floors), stop)
        for part, own in by_part(parts[opening]):
            if part in self._parts.extents:
                ids, counts = np.unique(ticks[opening][own], return_counts=True)
                for of, columns in self._parts.of(part).at(ids, counts):
                    yield np.full(len(of), part), of, columns

    def _rows(self, found: list[_Found]) -> Batch:
        """Windows one after the other, those of several partitions by what these are called."""
        parts, ids = (np.concatenate([each[place] for each in found]) for place in (0, 1))
        self._highest = max(self._highest, int(ids.max()))
        columns = [
            pa.concat_arrays(each) for each in zip(*(columns for *_, columns in found), strict=True)
        ]
        by_value = self._parts.numbers.order_of(parts)
        order = by_value[stable_order(ids[by_value])]
        return Batch(windows_batch(self.node, [(ids[order], taken(columns, order))]))

    def _forget(self, bound: Bound) -> None:
        """Later windows are opened at or above the bound.  All partitions are looked through, but
        only as often as it costs little for each item."""
        self._looked += 1
        if bound in (BEGINNING, END) or self._looked < len(self._parts.extents):
            return
        self._looked = 0
        for part in list(self._parts.extents):
            self._parts.of(part).pass_(int(bound))
        self._parts.forget()

    def _promise(self, bound: Bound, ended: bool) -> Progress:
        if self.node.partition:
            return Progress(ended=ended)
        high = {} if self._highest == BEGINNING else self._bounds(int(self._highest))
        if ended or bound == BEGINNING:
            return Progress({}, high, ended)
        return Progress(self._bounds(int(bound)), high)

    def _bounds(self, wid: int) -> dict[str, Bound]:
        start, end = self._window.bounds(wid)
        return {"window_id": wid, "window_start": start, "window_end": end}

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._parts)

    def open_results(self) -> OpenResults:
        """Items that wait: they open windows when the bound has passed them."""
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(Within(store, "waiting/"))
        self._parts.save(store)
        store.put("run", {"highest": self._highest})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._waiting.load(Within(store, "waiting/"))
            self._parts.load(store)
            self._highest = saved["highest"]
