"""CONSISTENCY: rows against those of a serial execution, after every item that comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.joins import multiway_join
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.runs.answer import Outlet
from penstock.runs.run_options import Adaptation
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, database

SCHEMA = "k INT, x INT, t INT"
EAGER = Adaptation(margin=1, agreeing=1, rows=1, share=float("inf"))
JOINS = (
    "SELECT a.k, a.x, b.x AS y FROM a [RANGE 9], b [RANGE 6] WHERE a.k = b.k",
    "SELECT a.x, b.x AS y FROM a [RANGE 9], b [RANGE 6] WHERE a.k = b.k AND a.x <= b.x",
    "SELECT a.x, b.x AS y, c.x AS z FROM a [RANGE 9], b [RANGE 6], c [RANGE 4]"
    " WHERE a.k = b.k AND b.k = c.k",
    "SELECT a.x, b.x AS y, c.x AS z FROM a [RANGE 5], b [RANGE 6], c [RANGE 7]"
    " WHERE a.k = b.k AND b.x = c.x",
)
OTHERS = (
    "SELECT x, t FROM a WHERE x > 0",
    "SELECT x, t FROM a UNION ALL SELECT x, t FROM b",
    "SELECT k, count(*) AS n, sum(x) AS s [RANGE 6, SLIDE 3, WA t] FROM a GROUP BY k",
    "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA t]"
    " FROM (SELECT t FROM a UNION ALL SELECT t FROM b) AS u",
    "SELECT a.x, b.x AS y FROM a [RANGE 9] LEFT JOIN b [RANGE 6] ON a.k = b.k",
    "SELECT p.x, q.x AS y FROM a AS p [RANGE 4], a AS q [RANGE 4] WHERE p.k = q.k",
    "SELECT k, sum(x) AS s [RANGE 3 ROWS, SLIDE 2 ROWS] FROM a GROUP BY k",
    "SELECT k, count(*) AS n [SESSION GAP 3, WA t] FROM a GROUP BY k",
    "SELECT k, changed_at FROM a [RANGE 9] EXCEPT ON (k) b [RANGE 2]",
    "SELECT k, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM a GROUP BY k"
    " UNION ALL SELECT k, count(*) AS n [RANGE 4, SLIDE 2, WA t] FROM b GROUP BY k",
    "SELECT n, b.x FROM (SELECT k, count(*) AS n, window_end [RANGE 6, SLIDE 3, WA t] FROM a"
    " GROUP BY k) AS w [RANGE 9], b [RANGE 9] WHERE w.k = b.k",
    "SELECT x, t FROM a EMIT IN ORDER",
    "SELECT k, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM a GROUP BY k LATE AMEND",
)
ITEMS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.tuples(st.integers(0, 1), st.integers(-1, 1), st.integers(0, 12)),
    ),
    min_size=12,
    max_size=30,
)


class Observed:
    """A run of a query over items of several streams in the order in which they come: the rows that
    have left, and how many there were after each feeding."""

    def __init__(
        self,
        text: str,
        items: list[tuple[str, Row]],
        delay: int,
        strategy: str = "dfs",
        adaptation: Adaptation | None = None,
    ) -> None:
        own = {name: [row for stream, row in items if stream == name] for name in "abc"}
        promise = ps.progress("t", delay=delay)
        db = database(**{name: Stream(SCHEMA, rows, promise) for name, rows in own.items()})
        query = db.sql(text)
        assert isinstance(query, ps.Query)
        self._sink = Collected()
        plan = in_process(query.plan)
        outlet, clock = Outlet(query.plan, self._sink), ManualClock()
        scheduling = replace(Scheduling.of(strategy), adaptation=adaptation or Adaptation())
        self.run = LocalRun([plan], [outlet], clock, scheduling=scheduling)
        self.one_by_one = plan.one_by_one
        self._come = [stream for stream, _ in items]
        self._scans = {scan.ingest.stream.name: scan for scan in self.run.scans}
        self._left = {name: _rows_of(scan) for name, scan in self._scans.items()}

    def feed(self, cut: int) -> Iterator[None]:
        """As many of one stream as come one after the other, but no more than that at a time."""
        for name, group in groupby(self._come):
            count = len(list(group))
            while count > 0:
                if name in self._scans:
                    some = self._left[name].slice(0, min(cut, count))
                    self._left[name] = self._left[name].slice(some.num_rows)
                    self.run.feed(self._scans[name], Chunk(some))
                count -= cut
                yield
        for scan in list(self.run.scans):
            self.run.end(scan)
        yield

    @property
    def rows(self) -> list[Row]:
        return [tuple(row.values()) for batch in self._sink.batches for row in batch.to_pylist()]


def _rows_of(scan: SourceNode) -> pa.RecordBatch:
    schema = scan.ingest.stream.input_schema.arrow
    batches = [chunk.batch for chunk in scan.chunks()]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def serial(text: str, items: list[tuple[str, Row]], delay: int) -> list[list[Row]]:
    """The rows that have left after each item, and after the end."""
    observed = Observed(text, items, delay)
    return [observed.rows for _ in observed.feed(1)]


def agreeing(rows: list[Row], states: list[list[Row]]) -> list[int]:
    """After which items the rows that have left were those of the serial execution."""
    return [
        number
        for number, state in enumerate(states)
        if Counter(rows[: len(state)]) == Counter(state)
    ]


def check(rows: list[Row], states: list[list[Row]], at_most: int | None) -> None:
    """Between two moments at which they agree, and the item that brings about the second one, fewer
    rows leave than that."""
    agree = agreeing(rows, states)
    assert agree
    assert agree[-1] == len(states) - 1, "all rows are there in the end"
    assert len(rows) == len(states[-1])
    if at_most is not None:
        for one, other in zip([-1, *agree], agree, strict=False):
            before = 0 if one < 0 else len(states[one])
            assert len(states[other - 1]) - before < at_most or other == 0


CLAUSES = (("SERIAL", 1), ("LEVEL 1", 1), ("LEVEL 3", 3), ("LEVEL 20", 20), ("WEAK", None))


@settings(deadline=None, max_examples=50)
@given(
    text=st.one_of(st.sampled_from(JOINS), st.sampled_from(OTHERS)),
    items=ITEMS,
    delay=st.sampled_from([0, 5, 40]),
    cut=st.sampled_from([1, 3, 30]),
    clause=st.sampled_from(CLAUSES),
    strategy=st.sampled_from(["dfs", "bfs"]),
    adaptation=st.sampled_from([Adaptation(), EAGER]),
)
def test_rows_follow_items(
    text: str,
    items: list[tuple[str, Row]],
    delay: int,
    cut: int,
    clause: tuple[str, int | None],
    strategy: str,
    adaptation: Adaptation,
) -> None:
    """Also while plans change."""
    words, at_most = clause
    states = serial(text, items, delay)
    with patch.multiple(multiway_join, _SMALL=2, _PART=4):
        observed = Observed(f"{text} CONSISTENCY {words}", items, delay, strategy, adaptation)
        for _ in observed.feed(cut):
            pass
    event("changed" if observed.run.adapting.decisions else "as planned")
    event("one by one" if observed.one_by_one else "together")
    event(f"{len(states[-1])} rows" if len(states[-1]) < 3 else "many rows")
    check(observed.rows, states, at_most)


CHANGING = (
    "SELECT k, count(*) AS n, max(x) AS m FROM a GROUP BY k EMIT CHANGES",
    "SELECT a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k EMIT CHANGES",
    "SELECT k, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM a GROUP BY k LATE AMEND FOR 4",
)


@settings(deadline=None, max_examples=30)
@given(
    text=st.sampled_from(CHANGING),
    items=ITEMS,
    delay=st.sampled_from([0, 5]),
    cut=st.sampled_from([1, 3, 30]),
    clause=st.sampled_from(CLAUSES),
)
def test_rows_with_signs(
    text: str,
    items: list[tuple[str, Row]],
    delay: int,
    cut: int,
    clause: tuple[str, int | None],
) -> None:
    """With WEAK, what is there for less than a batch need not be said."""
    words, at_most = clause
    states = serial(text, items, delay)
    observed = Observed(f"{text} CONSISTENCY {words}", items, delay)
    for _ in observed.feed(cut):
        pass
    assert summed(observed.rows) == summed(states[-1])
    if at_most is not None:
        check(observed.rows, states, at_most)


def summed(rows: list[Row]) -> dict[Row, int]:
    total: Counter[Row] = Counter()
    for *values, sign in rows:
        total[tuple(values)] += sign
    return {row: count for row, count in total.items() if count}


def test_rows_do_not_follow_unasked() -> None:
    """Otherwise nothing above would be shown."""
    items: list[tuple[str, Row]] = [("a", (n % 2, n, 1)) for n in range(40)]
    items += [("b", ((n + 1) % 2, n, 1)) for n in range(40)]
    states = serial(JOINS[0], items, 5)
    for words, agrees in (("", False), ("CONSISTENCY WEAK", False), ("CONSISTENCY SERIAL", True)):
        observed = Observed(f"{JOINS[0]} {words}", items, 5)
        for _ in observed.feed(40):
            pass
        assert (agreeing(observed.rows, states) == list(range(len(states)))) is agrees
        check(observed.rows, states, None)


def test_as_many_rows_as_without_the_clause() -> None:
    """Batches that are worth several threads, whose tuples look for others at the same time."""
    count = 100_000
    random = np.random.default_rng(5)
    db = ps.connect("local")
    for name in "abc":
        keys, times = random.integers(0, 20_000, count), np.sort(random.integers(0, 2_500, count))
        table = pa.table({"k": keys, "t": times})
        db.stream(name, table, progress=ps.progress("t", ordered=True))
    text = (
        "SELECT a.k, b.t FROM a [RANGE 600], b [RANGE 600], c [RANGE 600]"
        " WHERE a.k = b.k AND b.k = c.k"
    )
    expected: pa.Table | None = None
    for clause in ("", "CONSISTENCY SERIAL", "CONSISTENCY LEVEL 1000", "CONSISTENCY WEAK"):
        query = db.sql(f"{text} {clause}")
        assert isinstance(query, ps.Query)
        rows = query.collect().sort_by([("k", "ascending"), ("t", "ascending")])
        if expected is None:
            expected = rows
        assert rows.equals(expected), f"{clause}: {rows.num_rows}, not {expected.num_rows} rows"
