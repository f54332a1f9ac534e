"""Driving kernel operators: a stream cut into batches goes through them, item by item."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.operator import Item, LateRows, Operator, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.stateless import FilterOperator, Meld, ProjectOperator
from penstock.model.clock import Clock, ManualClock
from penstock.model.punctuation import BEGINNING, Bound
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.properties import plain_names
from penstock.reference.engine import answer
from penstock.runs.answer import join_tables, plainly_named
from tests.kernel.restarting import Restarting

Row = tuple[Any, ...]
Operators = dict[type[Node], Callable[[Any], Operator]]
STATELESS: Operators = {Filter: FilterOperator, Project: ProjectOperator, Union: Meld}
CUTS = (1, 7, 1000)
examples = settings(deadline=None, max_examples=25)

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("k", pa.string()),
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("t", pa.int32()),
    ]
)
DIFFERENTIAL = "count(*) AS c, count(x) AS cx, sum(i) AS si, sum(x) AS sx, avg(x) AS ax"
ALL = (
    f"{DIFFERENTIAL}, min(x) AS lo, max(k) AS hi, first(x) AS f, last(i) AS l, median(x) AS m, "
    "count(DISTINCT i) AS d, sum(i) FILTER (WHERE i > 0) AS sf"
)
# Added one after the other, these lose the 1 between the large ones.
DOUBLES = st.sampled_from([None, 0.0, 1.0, 0.1, 1e16, -1e16, 1e308, float("nan")])
ROWS = st.lists(
    st.tuples(
        st.sampled_from("dddp"),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, *range(-2, 4), 2**31 - 1]),
        DOUBLES,
        st.integers(-15, 25),
    ),
    min_size=1,
    max_size=24,
)
PROMISES: list[dict[str, Any]] = [
    {"ordered": True},
    {"delay": 4},
    {"delay": 60},
    {"slack": 2},
    {"delay": 3, "per": "k"},
    {"punctuated": ("kind = 'p'", "t - 2")},
    {"punctuated": ("kind = 'p'", "t"), "punctuated_for": ["k"]},
    {"punctuated": ("kind = 'p'", "t"), "punctuated_for": ["k"], "delay": 9},
]
PROMISE = st.sampled_from(PROMISES)


class Stream(NamedTuple):
    rows: list[Row]
    promise: dict[str, Any] | None

    def batches(self, cut: int) -> list[pa.RecordBatch]:
        return [
            pa.RecordBatch.from_pylist(
                [dict(zip(SCHEMA.names, row, strict=True)) for row in self.rows[at : at + cut]],
                SCHEMA,
            )
            for at in range(0, len(self.rows), cut)
        ]


class Outcome(NamedTuple):
    rows: list[str]
    late: list[str]


def check(sql: str, stream: Stream, operators: Operators) -> None:
    """The operators give the reference's rows and late rows, however the stream is cut."""
    expected = None
    for cut in CUTS:
        plan = planned(sql, stream, cut)
        if expected is None:
            found = answer(plan, ManualClock())
            expected = Outcome(bag(tuples(found.table)), bag(tuples(found.late)))
        assert run(plan, operators) == expected
        assert run(plan, restarting(operators)) == expected


def restarting(operators: Operators) -> Operators:
    """The same operators, started anew from what they saved after every other item."""
    return {
        kind: lambda node, make=make: Restarting(lambda: make(node), every=2)
        for kind, make in {**STATELESS, **operators}.items()
    }


def planned(sql: str, stream: Stream, cut: int) -> QueryPlan:
    plan, data = _planned(sql, json.dumps(stream.promise))
    data[:] = stream.batches(cut)
    return plan


@cache
def _planned(sql: str, promise: str) -> tuple[QueryPlan, list[pa.RecordBatch]]:
    """A plan, and the batches that its stream will be read from: parsing takes a while."""
    db = ps.connect("reference")
    given = json.loads(promise)
    progress = ps.progress("t", **given) if given is not None else None
    data = [pa.RecordBatch.from_pylist([], SCHEMA)]
    db.stream("s", data, progress=progress)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.plan, data


def run(plan: QueryPlan, operators: Operators, clock: Clock | None = None) -> Outcome:
    rows: list[Row] = []
    late: list[pa.RecordBatch] = []
    for item in items(plan.input, operators, clock or ManualClock()):
        if isinstance(item, LateRows):
            late.append(item.batch)
        elif isinstance(item, Batch):
            made = item.rows
            assert made.schema == plan.schema.arrow
            rows += tuples(pa.Table.from_batches([made]))
    return Outcome(bag(rows), bag(tuples(late_table(plan, late))))


def late_table(plan: QueryPlan, batches: list[pa.RecordBatch]) -> pa.Table:
    """Late tuples in the columns of the query."""
    names = plain_names(plan)
    tables = [pa.Table.from_batches([plainly_named(batch, names)]) for batch in batches]
    return join_tables(tables, plan)


def items(node: Node, operators: Operators, clock: Clock) -> Iterator[Item]:
    if isinstance(node, Scan):
        return Ingest(node, clock, RejectLog(False)).items()
    inputs = [items(each, operators, clock) for each in node.inputs]
    return _promising(_through(_operator(node, operators), inputs), node)


def _operator(node: Node, operators: Operators) -> Operator:
    return {**STATELESS, **operators}[type(node)](node)


def _through(operator: Operator, inputs: list[Iterator[Item]]) -> Iterator[Item]:
    for port, given in enumerate(inputs):
        for item in given:
            match item:
                case LateRows():
                    yield item
                case Progress():
                    yield from operator.on_progress(port, item)
                case _:
                    yield from operator.on_batch(port, item)


def _promising(given: Iterator[Item], node: Node) -> Iterator[Item]:
    """The items; no batch may break what was promised before it (unless it says so)."""
    promised: dict[str, Bound] = {}
    ended = False
    fields = {each.field.qualified: each.field for each in node.progress}
    for item in given:
        if isinstance(item, Progress):
            assert not ended
            ended = item.ended
            for name in fields:
                bound = item.bounds.get(name, BEGINNING)
                assert ended or bound >= promised.get(name, BEGINNING)
                promised[name] = bound
        elif isinstance(item, Batch) and item.broken is None:
            for name, bound in promised.items():
                if bound != BEGINNING:
                    position = item.rows.schema.names.index(name)
                    found = to_ticks(item.rows.column(position), fields[name].type)
                    assert found.min() >= bound, (name, bound, found)
        yield item
    assert ended


def tuples(table: pa.Table) -> list[Row]:
    return list(zip(*map(_values, table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def bag(rows: Any) -> list[str]:
    """`repr` tells −0.0 from 0.0, and makes NaN equal NaN."""
    return sorted(map(repr, rows))
