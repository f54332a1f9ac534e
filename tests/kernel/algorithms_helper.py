"""Streams for the window algorithms, what they make of them, and what the definitions say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import penstock
from penstock.api.database import Database
from penstock.io.sources.memory import BatchSource
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, LateRows, Operator, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.model.clock import SystemClock
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.node import Node, Scan
from penstock.reference.engine import evaluate
from penstock.reference.relation import Run

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("t", pa.int64())])
AGGREGATES = {
    "numbers": "count(*) AS n, count(v) AS nv, sum(v) AS s, avg(x) AS m",
    "extremes": "min(v) AS low, max(x) AS high, first(v) AS f, last(v) AS l, max(k) AS text",
    "holistic": "median(v) AS mid, count(DISTINCT v) AS d, sum(DISTINCT v) AS sd",
    "filtered": "sum(v) FILTER (WHERE v > 0) AS s, min(k) AS text, count(*) AS n",
}
Row = tuple[str | None, int | None, float | None, int]


@dataclass(frozen=True)
class Stream:
    rows: list[Row]
    range: int
    slide: int
    origin: int
    delay: int
    aggregates: str
    keys: str  # for GROUP BY; may be empty
    per: str | None = None  # the column that tells sub-sources apart

    def node(self, cut: int | None = None) -> WindowAggregate:
        """The aggregation over the rows, which arrive in batches of `cut`."""
        node = self._whole
        if cut is None:
            return node
        assert isinstance(node.input, Scan)
        source = BatchSource(self._table.to_batches(max_chunksize=cut), "cut")
        stream = replace(node.input.stream, source=source)
        return replace(node, input=replace(node.input, stream=stream))

    @cached_property
    def _table(self) -> pa.Table:
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    @cached_property
    def _whole(self) -> WindowAggregate:
        database = Database()
        progress = penstock.progress("t", delay=self.delay, per=self.per)
        database.stream("s", self._table, progress=progress)
        keys = f" GROUP BY {self.keys}" if self.keys else ""
        query = database.sql(
            f"SELECT {self.aggregates} [RANGE {self.range}, SLIDE {self.slide}, WA t, "
            f"ORIGIN {self.origin}] FROM s{keys}"
        )
        found = _aggregation(query.plan.input)  # type: ignore[union-attr]
        assert found is not None
        return found


def _aggregation(node: Node) -> WindowAggregate | None:
    if isinstance(node, WindowAggregate):
        return node
    return next(filter(None, map(_aggregation, node.inputs)), None)


@dataclass
class Outcome:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    late: list[tuple[Any, ...]] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        mine, its = (sorted(map(repr, each)) for each in (self.rows, other.rows))
        return mine == its and sorted(map(repr, self.late)) == sorted(map(repr, other.late))


def items(node: WindowAggregate) -> Iterator[Item]:
    assert isinstance(node.input, Scan)
    return Ingest(node.input, SystemClock(), RejectLog()).items()


def outcome(operator: Operator, node: WindowAggregate) -> Outcome:
    """What the operator answers; what it promises about its results must hold."""
    found = Outcome()
    promised: float = float("-inf")
    for item in items(node):
        if isinstance(item, Progress):
            answers = operator.on_progress(0, item)
        else:
            assert isinstance(item, Batch)
            answers = operator.on_batch(0, item)
        for answer in answers:
            if isinstance(answer, Progress):
                promised = max(promised, answer.bounds.get("window_id", promised))
                continue
            batch = answer.batch if isinstance(answer, LateRows) else answer.rows
            rows = [tuple(row.values()) for row in batch.to_pylist()]
            if isinstance(answer, LateRows):
                found.late += rows
            else:
                assert batch.schema.equals(node.schema.arrow)
                assert all(row[0] >= promised for row in rows)
                found.rows += rows
    return found


def defined(node: WindowAggregate) -> Outcome:
    """What the definitions say."""
    run = Run(clock=SystemClock())
    relation = evaluate(node, run)
    late = [tuple(row.values()) for row in run.late_table().to_pylist()]
    return Outcome([tuple(row.values) for row in relation.rows], late)


@st.composite
def streams(
    draw: st.DrawFn, covered: bool = False, tumbling: bool = False, size: int = 40
) -> Stream:
    """Streams with NULLs, repeated and negative times; if `covered`, nothing is late."""
    ticks = st.integers(-30, 30) | st.sampled_from([-1000, 500])
    row = st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.none() | st.integers(-5, 5) | st.just(2**40),
        st.none() | st.sampled_from([0.5, -1e16, 1e16, 3.25, float("inf"), float("nan")]),
        ticks,
    )
    rows = draw(st.lists(row, min_size=1, max_size=size))
    if draw(st.booleans()):
        rows.sort(key=lambda each: each[3])
    slide = draw(st.integers(1, 7))
    wide = slide if tumbling else draw(st.integers(1, 20))
    return Stream(
        rows,
        wide,
        slide,
        draw(st.integers(-3, 3)),
        2000 if covered else draw(st.sampled_from([0, 3, 15])),
        draw(st.sampled_from(list(AGGREGATES.values()))),
        draw(st.sampled_from(["", "k", "k, v"])),
        None if covered else draw(st.sampled_from([None, None, "k"])),
    )


CUTS = (1, 7, None)
