"""Windows that a late tuple would shift as a whole: they wait until no late tuple counts any more.

By rank, a late tuple moves all rows behind it, and where every n-th tuple opens a window it moves
the windows.  So results are not revised, but held back for as long as they can be amended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.operator import Base, Item, LateRows, OpenResults, Operator, Progress, at_once
from penstock.kernel.revisions.amendment import Forgiving, behind, with_amended
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.results import Missed
from penstock.model.arrays import Ints, Mask, exceeds_by_at_most
from penstock.model.punctuation import BEGINNING
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import Order, SlideByTuple


class Deferred(Base):
    """Run a window operator behind its input's progress by the grace of late tuples: results are
    final when they leave."""

    def __init__(
        self,
        node: WindowAggregate,
        asked: Asked,
        make: Callable[[WindowAggregate], Operator],
    ) -> None:
        assert isinstance(node.attribute, Column)
        self.node = node
        self._attribute = node.attribute
        self._place = node.attribute.position(node.input.schema)
        self._name = node.input.schema.fields[self._place].qualified
        self._id_type = node.schema.fields[0].type
        self._bound = BoundOf(node.attribute)
        self._forgiving = Forgiving([node.attribute], node.input, asked)
        (self._grace,) = self._forgiving.graces
        self._says_amended = asked.amend_for is not None
        self._inner = make(node)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        window = self.node.window
        if isinstance(window, SlideByTuple) and window.order is Order.ARRIVAL:
            given = batch.without_broken()
            if batch.broken is not None:
                given, late = self._by_tuple(window, batch, given)
                yield from late
        else:
            rows, _, late = self._forgiving.split(batch, self._id_type)
            given = Batch(rows)
            yield from late
        for item in self._inner.on_batch(port, given):
            if not isinstance(item, LateRows):  # they have been reported, by their own bounds
                yield item

    def _by_tuple(
        self, window: SlideByTuple, batch: Batch, given: Batch
    ) -> tuple[Batch, list[LateRows]]:
        """The tuples with the bounds that count for them, and those that came late."""
        rows, bounds = self._bound.broken(batch)
        ticks = to_ticks(batch.rows.column(self._place), self._attribute.type)[rows]
        below = ticks < bounds
        rows, bounds, ticks = rows[below], bounds[below], ticks[below]
        if len(rows) == 0:
            return given, []
        amended = self._amended(bounds, ticks)
        missed = Missed(rows, bounds, ticks, np.minimum(bounds, window.wid_bounds(ticks)[1]) - 1)
        late = missed.late_rows(batch.rows, self._attribute.type, self._id_type)
        if self._grace is not None and not amended.all():
            lost = rows[~amended]
            marked = np.zeros(batch.num_rows, np.int64)
            marked[lost] = bounds[~amended] - self._grace
            broken = np.zeros(batch.num_rows, np.bool_)
            broken[lost] = True
            given = given.breaking(self._name, marked, broken)
        return given, [with_amended(late, amended) if self._says_amended else late]

    def _amended(self, bounds: Ints, ticks: Ints) -> Mask:
        if self._grace is None:
            return np.ones(len(ticks), np.bool_)
        return exceeds_by_at_most(bounds, ticks, self._grace)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        final = behind(self._bound.promised(progress), self._grace)
        bounds = {} if progress.ended or final == BEGINNING else {self._name: final}
        yield from self._inner.on_progress(port, Progress(bounds, progress.high, progress.ended))

    def rows_held(self) -> int:
        return self._inner.metrics().rows

    def open_results(self) -> OpenResults:
        return self._inner.open_results()

    def save(self, store: ChunkStore) -> None:
        self._inner.save(store)

    def load(self, store: ChunkStore) -> None:
        self._inner.load(store)
