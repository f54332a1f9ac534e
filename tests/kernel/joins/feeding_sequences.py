"""A sequence or difference that is fed by hand: rows of (k, t) on either side, then a bound."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, Progress
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.join import Difference, Sequence

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])


class Fed:
    def __init__(self, clauses: str) -> None:
        db = ps.connect()
        for name in "ab":
            batch = pa.RecordBatch.from_pylist([], SCHEMA)
            db.stream(name, [batch], progress=ps.progress("t", ordered=True))
        query = db.sql(f"SELECT * FROM SEQUENCE(a THEN b {clauses})")
        assert isinstance(query, ps.Query)
        node = next(each for each in query.plan.walk() if isinstance(each, Sequence))
        self.operator = operator_for(lower_node(node), ManualClock())
        self.pairs: list[tuple[int, int]] = []  # the times of both

    @property
    def held(self) -> int:
        return self.operator.metrics().rows

    def first(self, rows: Iterable[tuple[int, int]], bound: int) -> None:
        self._feed(0, list(rows), bound)

    def second(self, rows: Iterable[tuple[int, int]], bound: int) -> None:
        self._feed(1, list(rows), bound)

    def second_ends(self) -> None:
        self._take(self.operator.on_progress(1, Progress(ended=True)))

    def _feed(self, port: int, rows: list[tuple[int, int]], bound: int) -> None:
        if rows:
            name = "ab"[port]
            columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, [f"{name}.k", f"{name}.t"])
            self._take(self.operator.on_batch(port, Batch(batch)))
        self._take(self.operator.on_progress(port, Progress({f"{'ab'[port]}.t": bound})))

    def _take(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Batch):
                rows = item.rows
                times = (rows.column(name).to_pylist() for name in ("a.t", "b.t"))
                self.pairs += zip(*times, strict=True)


class FedDifference:
    """The same for a difference."""

    def __init__(self, relation: str) -> None:
        db = ps.connect()
        for name in "lr":
            batch = pa.RecordBatch.from_pylist([], SCHEMA)
            db.stream(name, [batch], progress=ps.progress("t", ordered=True))
        query = db.sql(f"SELECT * FROM {relation}")
        assert isinstance(query, ps.Query)
        node = next(each for each in query.plan.walk() if isinstance(each, Difference))
        self.operator = operator_for(lower_node(node), ManualClock())
        self.items: list[tuple[int, int]] = []  # times and signs

    @property
    def held(self) -> int:
        return self.operator.metrics().rows

    def left(self, rows: Iterable[tuple[int, int]], bound: int) -> None:
        self._feed(0, list(rows), bound)

    def right(self, rows: Iterable[tuple[int, int]], bound: int) -> None:
        self._feed(1, list(rows), bound)

    def _feed(self, port: int, rows: list[tuple[int, int]], bound: int) -> None:
        name = "lr"[port]
        made: list[Item] = []
        if rows:
            columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, [f"{name}.k", f"{name}.t"])
            made += self.operator.on_batch(port, Batch(batch))
        made += self.operator.on_progress(port, Progress({f"{name}.t": bound}))
        for item in made:
            if isinstance(item, Batch):
                assert item.signs is not None
                times = item.rows.column("l.changed_at").to_pylist()
                self.items += zip(times, item.signs.tolist(), strict=True)
