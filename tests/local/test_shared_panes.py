"""Aggregations of several queries over one stream: folded once, each with its own answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.kernel.state import ChunkStore, MemoryStore, required
from penstock.kernel.windows import pane_parts, shared_panes
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.kernel.windows.shared_panes import SharedPanesOperator
from penstock.local.checkpoint import load_run, save_run, shared_as_begun
from penstock.local.graph.source_node import SourceNode
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.plan.physical import OperatorKind
from penstock.runs.answer import Account, Outlet
from tests.local.helpers import recut
from tests.planning import in_process
from tests.reference.helpers import Row, Stream, bag, database, tuples

ALONE = (OperatorKind.PANED, OperatorKind.WID, OperatorKind.BUFFERING, OperatorKind.ADAPTIVE)
SCHEMA = "k STRING, x INT, p STRING, t INT"
CALLS = (
    "count(*)",
    "count(x)",
    "sum(x)",
    "avg(x)",
    "max(x)",
    "first(x)",
    "last(x)",
    "median(x)",
    "count(DISTINCT x)",
    "sum(x) FILTER (WHERE x > 1)",
)
WINDOWS = ((10, 5), (6, 6), (12, 4), (7, 3), (20, 10), (5, 1))
FILTERS = (
    "TRUE",
    "x > 1",
    "x <> 2",
    "k = 'a'",
    "x > 1 AND k IS NOT NULL",
    "x BETWEEN 1 AND 2",
    "2 >= x OR p IN ('one', 'b')",
    "NOT x + 1 < 2",
    "CAST(x AS DOUBLE) / 0 > 1",
    "t % 3 = 1",
)
QUERY = st.builds(
    lambda window, calls, where, having: (
        f"SELECT k, {', '.join(f'{call} AS a{n}' for n, call in enumerate(calls))}"
        f" [RANGE {window[0]}, SLIDE {window[1]}, WA t] FROM s WHERE {where} GROUP BY k{having}"
        " LATE SIDE"
    ),
    st.sampled_from(WINDOWS),
    st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True),
    st.sampled_from(FILTERS),
    st.sampled_from(["", " HAVING count(*) > 1"]),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0, 1, 2, 3]),
        st.sampled_from(["one", "two"]),
        st.integers(0, 40),
    ),
    max_size=25,
)


class Several:
    """Some queries of one database in one run, which may be added one by one."""

    def __init__(self, queries: Sequence[ps.Query], one_by_one: bool = False) -> None:
        self.queries = queries
        self.rows = [Collected() for _ in queries]
        self.late = [Collected() for _ in queries]
        self.outlets = [
            Outlet(query.plan, rows, late)
            for query, rows, late in zip(queries, self.rows, self.late, strict=True)
        ]
        plans = [in_process(query.plan) for query in queries]
        if one_by_one:
            self.run = LocalRun([], [], ManualClock(), strict=True)
            for plan, outlet in zip(plans, self.outlets, strict=True):
                self.run.add(plan, outlet)
        else:
            self.run = LocalRun(plans, self.outlets, ManualClock(), strict=True)

    def drive(self) -> None:
        for scan in self.run.scans:
            for chunk in scan.chunks():
                self.run.feed(scan, chunk)
            self.run.end(scan)

    def outcome(self, number: int) -> tuple[list[Row], list[Row], Account]:
        late = [row for batch in self.late[number].batches for row in batch.to_pylist()]
        found = bag(tuples(self.rows[number].table))
        account = self.run.account(self.outlets[number])
        return found, bag([tuple(row.values()) for row in late]), account

    @property
    def kinds(self) -> list[OperatorKind]:
        return [node.node.operator for node in self.run.graph.operators]


def expected(query: ps.Query) -> tuple[list[Row], list[Row], Account]:
    return bag(tuples(query.collect())), bag(tuples(query.late)), query.account


@settings(deadline=None, max_examples=40)
@given(
    texts=st.lists(QUERY, min_size=2, max_size=7),
    rows=ROWS,
    delay=st.sampled_from([0, 3, 50]),
    cut=st.sampled_from([1, 7, None]),
    per=st.booleans(),
    one_by_one=st.booleans(),
    by_cell=st.booleans(),
)
def test_every_query_has_its_own_answer(
    texts: list[str],
    rows: list[Row],
    delay: int,
    cut: int | None,
    per: bool,
    one_by_one: bool,
    by_cell: bool,
) -> None:
    promise = ps.progress("t", delay=delay, per="p" if per else None)
    db = database(s=Stream(SCHEMA, rows, promise))
    recut(db, cut)
    queries = [db.sql(text) for text in texts]
    assert all(isinstance(query, ps.Query) for query in queries)
    several = Several(queries, one_by_one)  # type: ignore[arg-type]
    event(f"{several.kinds.count(OperatorKind.WINDOWS_OF_PANES)} share")
    with patch.object(pane_parts, "_SPARSE", 1000 if by_cell else 0):
        several.drive()
    for number, query in enumerate(queries):
        assert isinstance(query, ps.Query)
        assert several.outcome(number) == expected(query), texts[number]


MANY = Stream(
    "k INT, x INT, t INT", [(n, n % 7, n // 10) for n in range(30_000)], ps.progress("t", delay=5)
)
SELECT = "SELECT k, sum(x) AS s [RANGE {0}, SLIDE {1}, WA t] FROM s WHERE x > {2} GROUP BY k"


def queries_over(stream: Stream, *texts: str, cut: int | None = None) -> list[ps.Query]:
    db = database(s=stream)
    recut(db, cut)
    found = [db.sql(text) for text in texts]
    return [query for query in found if isinstance(query, ps.Query)]


def test_they_share() -> None:
    several = Several(queries_over(MANY, SELECT.format(20, 10, 1), SELECT.format(40, 20, 3)))
    assert several.kinds.count(OperatorKind.SHARED_PANES) == 1
    assert not set(several.kinds) & set(ALONE)


def test_keys_and_panes_are_forgotten() -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(40, 20, 1), SELECT.format(20, 20, 3)]
    several = Several(queries_over(MANY, *texts, cut=1000))
    several.drive()
    (folding,) = [
        node.operator
        for node in several.run.graph.operators
        if isinstance(node.operator, SharedPanesOperator)
    ]
    assert len(folding._folder.keys) < 15_000
    assert all(len(part.panes.numbers) < 20 for part in folding._parts)
    for number, query in enumerate(queries_over(MANY, *texts)):
        assert several.outcome(number) == expected(query)


def test_a_query_that_leaves_is_forgotten() -> None:
    texts = [SELECT.format(1000, 10, 1), SELECT.format(20, 10, 1)]
    several = Several(queries_over(MANY, *texts, cut=1000))
    (scan,) = several.run.scans
    for number, chunk in enumerate(scan.chunks()):
        if number == 5:
            several.run.drop(several.outlets[0])
        several.run.feed(scan, chunk)
    several.run.end(scan)
    (folding,) = [
        node.operator
        for node in several.run.graph.operators
        if isinstance(node.operator, SharedPanesOperator)
    ]
    assert all(len(part.panes.numbers) < 20 for part in folding._parts)
    (query,) = queries_over(MANY, texts[1])
    assert several.outcome(1) == expected(query)


def test_who_comes_later_shares_what_comes() -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(20, 20, 1), SELECT.format(10, 10, 2)]
    queries = queries_over(MANY, *texts, cut=1000)
    several = Several(queries[:2])
    (scan,) = several.run.scans
    several.run.feed(scan, next(iter(scan.chunks())))
    several.run.add(in_process(queries[2].plan), Outlet(queries[2].plan, Collected()))
    assert several.kinds.count(OperatorKind.WINDOWS_OF_PANES) == 3


class Coming:
    """Queries over one live stream that come one by one, each before a chunk; and perhaps leave."""

    def __init__(
        self, texts: Sequence[str], rows: list[Row], when: list[int], gone: int, share: bool
    ) -> None:
        db = database(s=Stream(SCHEMA, rows, ps.progress("t", delay=3)))
        queries = [query for query in map(db.sql, texts) if isinstance(query, ps.Query)]
        self.rows = [Collected() for _ in queries]
        self.late = [Collected() for _ in queries]
        self.run = LocalRun([], [], ManualClock(), strict=True)
        outlets = [Outlet(q.plan, *s) for q, *s in zip(queries, self.rows, self.late, strict=True)]
        add = self.run.add if share else self.run.graph.add
        left = sorted(zip(when, queries, outlets, strict=True), key=lambda each: each[0])
        number = 0
        self._add(add, left, 0)
        (scan,) = self.run.scans
        with patch.object(SourceNode, "can_be_joined", True):  # as if it could be read only once
            for chunk in scan.chunks():
                for begin in range(0, chunk.batch.num_rows, 4):
                    self._add(add, left, number)
                    if number == gone and outlets[0] in self.run.graph.queries:
                        self.run.drop(outlets[0])
                    if self.run.scans:
                        self.run.feed(scan, Chunk(chunk.batch.slice(begin, 4)))
                    number += 1
            self.kinds = [node.node.operator for node in self.run.graph.operators]
            if self.run.scans:
                self.run.end(scan)

    @staticmethod
    def _add(add: Any, left: list[Any], number: int) -> None:
        while left and left[0][0] <= number:
            _, query, outlet = left.pop(0)
            add(in_process(query.plan), outlet)

    @property
    def outcome(self) -> list[object]:
        late = [[row for batch in each.batches for row in batch.to_pylist()] for each in self.late]
        late_rows = [bag([tuple(row.values()) for row in each]) for each in late]
        return [[bag(tuples(each.table)) for each in self.rows], late_rows]


@settings(deadline=None, max_examples=30)
@given(
    texts=st.lists(QUERY, min_size=2, max_size=5),
    rows=ROWS,
    when=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    gone=st.integers(1, 9),
    by_cell=st.booleans(),
)
def test_queries_that_come_and_go(
    texts: list[str], rows: list[Row], when: list[int], gone: int, by_cell: bool
) -> None:
    when = [0, *when[1 : len(texts)]]
    with patch.object(pane_parts, "_SPARSE", 1000 if by_cell else 0):
        shared = Coming(texts, rows, when, gone, share=True)
    event(f"{shared.kinds.count(OperatorKind.WINDOWS_OF_PANES)} share")
    assert shared.outcome == Coming(texts, rows, when, gone, share=False).outcome


@pytest.mark.parametrize(
    "other",
    [
        "SELECT /*+ wid */ k, count(*) AS n [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k",
        "SELECT k, count(*) AS n [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k LATE AMEND",
        "SELECT k, count(*) AS n [RANGE 2, SLIDE 10, WA t] FROM s GROUP BY k",
        "SELECT x, count(*) AS n [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY x",
        "SELECT k, count(*) AS n [RANGE 20, SLIDE 10, WA t, ORIGIN 3] FROM s GROUP BY k",
        "SELECT k, sum(CAST(x * 1e9 AS INT)) AS n [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k",
        "SELECT k, count(*) AS n [RANGE ALL, SLIDE 10, WA t] FROM s GROUP BY k",
    ],
)
def test_what_is_left_alone(other: str) -> None:
    several = Several(queries_over(MANY, SELECT.format(20, 10, 1), other))
    assert OperatorKind.SHARED_PANES not in several.kinds


def test_one_query_is_left_alone() -> None:
    assert set(Several(queries_over(MANY, SELECT.format(20, 10, 1))).kinds) & set(ALONE)


class InParts:
    """Some queries in one run that is saved after every few chunks, and gone on with by another."""

    def __init__(self, queries: Sequence[ps.Query], chunks: int, share: bool = True) -> None:
        self.rows = [Collected() for _ in queries]
        self.late = [Collected() for _ in queries]
        self._queries = queries
        store = MemoryStore()
        self.kinds: set[OperatorKind] = set()
        while self._part(store, chunks, share):
            share = True

    def _part(self, store: MemoryStore, chunks: int, share: bool) -> bool:
        plans = [in_process(query.plan) for query in self._queries]
        outlets = [
            Outlet(query.plan, *sinks)
            for query, *sinks in zip(self._queries, self.rows, self.late, strict=True)
        ]
        together = shared_as_begun(plans, store) if share else plans
        run = LocalRun(together, outlets, ManualClock(), strict=True, resumable=True)
        load_run(run, store)
        self.kinds = {node.node.operator for node in run.graph.operators}
        (scan,) = run.scans
        for number, chunk in enumerate(scan.chunks()):
            if number == chunks:
                save_run(run, store)
                return True
            run.feed(scan, chunk)
        run.end(scan)
        return False

    def outcome(self, number: int) -> tuple[list[Row], list[Row]]:
        late = [row for batch in self.late[number].batches for row in batch.to_pylist()]
        return bag(tuples(self.rows[number].table)), bag([tuple(row.values()) for row in late])


@settings(deadline=None, max_examples=25)
@given(
    texts=st.lists(QUERY, min_size=2, max_size=5),
    rows=ROWS,
    delay=st.sampled_from([0, 3, 50]),
    chunks=st.integers(1, 5),
    by_cell=st.booleans(),
    few=st.sampled_from([0, 3, 128]),
)
def test_they_go_on_together(
    texts: list[str], rows: list[Row], delay: int, chunks: int, by_cell: bool, few: int
) -> None:
    db = database(s=Stream(SCHEMA, rows, ps.progress("t", delay=delay)))
    recut(db, 2)
    queries = [query for query in map(db.sql, texts) if isinstance(query, ps.Query)]
    with (
        patch.object(pane_parts, "_SPARSE", 1000 if by_cell else 0),
        patch.object(shared_panes, "_FEW_ROWS", few),  # so many are saved as they are
    ):
        several = InParts(queries, chunks)
    for number, query in enumerate(queries):
        assert several.outcome(number) == expected(query)[:2], texts[number]


def test_saved_runs_share() -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(20, 20, 1), SELECT.format(40, 10, 3)]
    several = InParts(queries_over(MANY, *texts, cut=1000), 7)
    assert OperatorKind.SHARED_PANES in several.kinds
    for number, query in enumerate(queries_over(MANY, *texts)):
        assert several.outcome(number) == expected(query)[:2]


def test_earlier_versions_have_saved_all_panes_of_all_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(20, 20, 1), SELECT.format(40, 10, 3)]
    monkeypatch.setattr(shared_panes, "_FEW_ROWS", 0)
    own, converted = SharedPanesOperator.save, []

    def save(self: SharedPanesOperator, store: ChunkStore) -> None:
        own(self, store)
        if not converted:  # a first save has all panes
            numbers = [each.split("/")[1] for each in store.names() if each.endswith("/part")]
            names = [f"parts/{number}/part" for number in sorted(numbers, key=int)]
            store.put("parts", [required(store, name)["pane"] for name in names])
            for name in names:
                store.drop(name)
            converted.extend(names)

    monkeypatch.setattr(SharedPanesOperator, "save", save)
    several = InParts(queries_over(MANY, *texts, cut=1000), 7)
    assert len(converted) == 2
    for number, query in enumerate(queries_over(MANY, *texts)):
        assert several.outcome(number) == expected(query)[:2]


def test_who_has_not_shared_goes_on_alone() -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(20, 20, 1)]
    several = InParts(queries_over(MANY, *texts, cut=1000), 7, share=False)
    assert OperatorKind.SHARED_PANES not in several.kinds
    for number, query in enumerate(queries_over(MANY, *texts)):
        assert several.outcome(number) == expected(query)[:2]


def test_what_is_held_and_open() -> None:
    texts = [SELECT.format(20, 10, 1), SELECT.format(40, 20, 1)]
    several = Several(queries_over(MANY, *texts, cut=1000))
    alone = [Several([query]) for query in queries_over(MANY, *texts, cut=1000)]
    for run in (several.run, *(each.run for each in alone)):
        (scan,) = run.scans
        for number, chunk in enumerate(scan.chunks()):
            if number == 7:
                break
            run.feed(scan, chunk)
    for number, other in enumerate(alone):
        own = several.run.open_results(several.outlets[number]).count
        assert own == other.run.open_results(other.outlets[0]).count > 0
    users = [node.operator for node in several.run.graph.operators]
    held = [each.metrics().bytes for each in users if isinstance(each, WindowsOfPanesOperator)]
    assert all(held)
