"""Driving operators whose results may be revised: early answers, restarts, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.operator import Item, LateRows, Metrics, OpenResults, Operator, Progress
from penstock.kernel.revisions.revised_distinct import AmendingDistinct
from penstock.kernel.revisions.revised_groups import RevisingGroups
from penstock.kernel.revisions.revised_panes import RevisingLandmark, RevisingSliding
from penstock.kernel.revisions.revised_sessions import RevisingSessions
from penstock.kernel.state import ChunkStore, MemoryStore
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import asked_of_results
from penstock.plan.nodes.aggregation import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import Landmark, Session
from penstock.reference.engine import answer
from tests.kernel.driving import CUTS, Stream, items, late_table, planned

Row = tuple[Any, ...]
Make = Callable[[], Operator]


def operator_of(node: Any, revising: Asked) -> Operator:
    match node:
        case WindowAggregate(window=Session()):
            return RevisingSessions(node, revising, ManualClock())
        case WindowAggregate(window=Landmark()):
            return RevisingLandmark(node, revising, ManualClock())
        case WindowAggregate():
            return RevisingSliding(node, revising, ManualClock())
        case GroupAggregate():
            return RevisingGroups(node, revising, ManualClock())
    return AmendingDistinct(node, revising)


class Disturbed:
    """An operator that is asked for early answers after every `early` items, and is made anew from
    what it saved after every `restart` items; 0 is never.  It must keep what it promises."""

    def __init__(self, node: Node, make: Make, early: int, restart: int) -> None:
        self._node = node
        self._make = make
        self._early = early
        self._restart = restart
        self._items = 0
        self._store = MemoryStore()
        self._operator = make()
        self._promised = Progress()

    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self._checked(self._operator.on_batch(port, batch))
        yield from self._after()

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        yield from self._checked(self._operator.on_progress(port, progress))
        if not progress.ended:
            yield from self._after()

    def due(self) -> int | None:
        return self._operator.due()

    def on_time(self, now: int) -> list[Item]:
        return self._operator.on_time(now)

    def metrics(self) -> Metrics:
        return self._operator.metrics()

    def open_results(self) -> OpenResults:
        return self._operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self._operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self._operator.load(store)

    def _after(self) -> Iterator[Item]:
        self._items += 1
        if self._early and self._items % self._early == 0:
            now = self._operator.due()
            assert now is not None
            yield from self._checked(self._operator.on_time(now))
        if self._restart:
            self._operator.save(self._store)
            if self._items % self._restart == 0:
                self._operator = self._make()
                self._operator.load(self._store)

    def _checked(self, given: Iterable[Item]) -> Iterator[Item]:
        types = {each.field.qualified: each.field.type for each in self._node.progress}
        for item in given:
            if isinstance(item, Progress):
                for name, bound in self._promised.bounds.items():
                    assert item.ended or item.bounds[name] >= bound
                self._promised = item
            elif isinstance(item, Batch):
                for name, bound in self._promised.bounds.items():
                    place = item.rows.schema.names.index(name)
                    assert to_ticks(item.rows.column(place), types[name]).min() >= bound
            yield item


def check(sql: str, stream: Stream, early: int = 0, restart: int = 0) -> None:
    """What is left of the revisions is the reference's answer, however the stream is cut, and no
    row is taken back that is not there."""
    expected = None
    for cut in CUTS:
        plan = planned(sql, stream, cut)
        if expected is None:
            found = answer(plan, ManualClock())
            expected = bag(rows_of(found.table)), bag(rows_of(found.late))
        left, late, _ = revised(plan, early, restart)
        assert (left, late) == expected, cut


def revised(
    plan: QueryPlan, early: int = 0, restart: int = 0
) -> tuple[Counter[str], Counter[str], list[tuple[int, str]]]:
    """What is left in the end, the late rows, and all that was said."""
    revising = asked_of_results(plan)
    assert revising is not None
    revising = Asked(revising.amends, revising.amend_for, 1 if early else None)

    def make(node: Node) -> Operator:
        asked = 0 if isinstance(node, Distinct) else early
        return Disturbed(node, lambda: operator_of(node, revising), asked, restart)

    operators = dict.fromkeys((WindowAggregate, GroupAggregate, Distinct), make)
    left: Counter[str] = Counter()
    late: list[pa.RecordBatch] = []
    said = []
    for item in items(plan.input, operators, ManualClock()):  # type: ignore[arg-type]
        if isinstance(item, LateRows):
            late.append(item.batch)
        elif isinstance(item, Batch):
            assert item.rows.schema == plan.schema.arrow
            given = rows_of(pa.Table.from_batches([item.rows]))
            signs = np.ones(len(given), np.int8) if item.signs is None else item.signs
            for row, sign in zip(map(repr, given), signs.tolist(), strict=True):
                said.append((sign, row))
                left[row] += sign
                assert left[row] >= 0, f"{row} was taken back and had not been given"
    return +left, bag(rows_of(late_table(plan, late))), said


def rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def bag(rows: Iterable[Row]) -> Counter[str]:
    """`repr` tells −0.0 from 0.0, and makes NaN equal NaN."""
    return Counter(map(repr, rows))
