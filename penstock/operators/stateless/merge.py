"""The union that keeps rows in order (Merge): they wait until every input has passed them.

A tuple below the bound that held before it is late, as it is where rows are put in order: what
should follow it may have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.schema import Field
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.groups.grouped import InTime
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.stateless.order import let_wait
from penstock.operators.stateless.steps import WayOut
from penstock.operators.stateless.union import Meld
from penstock.operators.waiting import WaitingRows
from penstock.physical.sorting import Sorting
from penstock.plan.expressions import Column
from penstock.plan.nodes.stateless import Union
from penstock.plan.properties.monotone import rises_with
from penstock.state.chunks import ChunkStore


class Merge(Meld):
    """Rows leave when no input can bring one that belongs before them."""

    def __init__(self, node: Union, sorting: Sorting | None = None) -> None:
        """In the order of the first column that progresses, unless something else is said."""
        super().__init__(node)
        if sorting is None:
            sorting = Sorting(Column.of(node.progress[0].field))
        self._key = compile_expression(sorting.by, node.schema)
        self._type = sorting.by.type
        self._bound = BoundOf(sorting.by)
        self._in_time = InTime([sorting.by], node)
        self._late = _LateRows(node, sorting)
        # rows that wait are above the bound on what they are sorted by, perhaps not above others
        columns = set(rises_with(sorting.by))
        fields = [Field(each.name, each.type, each.relation) for each in columns]
        self._passed = {each.qualified for each in fields} if len(columns) == 1 else set()
        self._waiting = WaitingRows()

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given = self._renamed(port, batch)
        if given.broken is not None:
            kept, _, _ = self._in_time.in_time(given)
            if kept is not None and not kept.all():
                yield from self._late.of(given.filter(pa.array(~kept)))
                given = given.filter(pa.array(kept))
        if given.num_rows:
            self._keep([given.rows])
            released = self._waiting.take_simultaneous()
            if released is not None:
                yield Batch(released.rows)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        for promised in self._melded(port, progress):
            released = self._waiting.take(self._bound.promised(promised))
            if released is not None:
                yield Batch(released.rows)
            passed = {n: bound for n, bound in promised.bounds.items() if n in self._passed}
            yield Progress(passed, promised.high, promised.ended)

    def rows_held(self) -> int:
        return len(self._waiting)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._save_registers(store)
        self._waiting.save(store)

    def load(self, store: ChunkStore) -> None:
        self._load_registers(store)
        self._waiting.load(store, self._output)

    def _kept(self) -> tuple[pa.RecordBatch, ...]:
        waiting = self._waiting.all()
        return (*([] if waiting is None else [waiting.rows]), *self._waiting.unplaced)

    def _keep(self, several: Iterable[pa.RecordBatch]) -> None:
        for rows in several:
            let_wait(self._waiting, rows, self._key(rows), self._type)


class _LateRows:
    """Late tuples in the columns that they would have had outside."""

    def __init__(self, node: Union, sorting: Sorting) -> None:
        self._way = WayOut(sorting.above)
        top = sorting.above[-1][0] if sorting.above else node
        self._in_time = InTime([Column.of(top.progress[0].field)], top)

    def of(self, batch: Batch) -> Iterator[Item]:
        outside = self._way.through(batch)
        if outside is not None:
            _, _, late = self._in_time.split(outside)
            yield from late
