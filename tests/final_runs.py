"""Random queries, some over windows over windows, answered by runs on a checkpoint, of which the
last one is final, and by a run without one: they have the same rows and the same late tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import PenstockError
from tests.optimizer.any_query import QUERIES, ROWS, SCHEMA, SPLIT, relations
from tests.reference.helpers import Row, Stream, bag, tuples

WINDOWS = (
    "RANGE {0}, SLIDE {1}, WA at",
    "RANGE {0}, SLIDE {0}, WA at",
    "RANGE ALL, SLIDE {0}, WA at",
    "SESSION GAP {0}, WA at",
    "RANGE {0}, RATTR at, SLIDE 1 ROW",
    "RANGE {0} ROWS, SLIDE {1} ROWS",
)
LEVEL = "SELECT k, {f}(v) AS v, window_end AS at [{w}] FROM {below} GROUP BY k"
ABOVE = (
    "SELECT * FROM {below}",
    "SELECT DISTINCT k, at FROM {below}",
    "SELECT k, at, count(*) AS n FROM {below} GROUP BY k, at",
    "SELECT k, v, at, sum(v) OVER (PARTITION BY k ORDER BY at) AS w FROM {below}",
    "SELECT k, lead(at) OVER (PARTITION BY k ORDER BY at) AS w FROM {below}",
    "SELECT DISTINCT ON (k) k, v, at [RANGE 4, SLIDE 4, WA at] FROM {below}",
    "SELECT a.k, a.at, b.v FROM {below} a [RANGE 5, WA at], r b [RANGE 3, WA at] WHERE a.k = b.k",
    "SELECT a.k, a.at, b.v FROM {below} a [RANGE 5, WA at] LEFT JOIN r b [RANGE 3, WA at]"
    " ON a.k = b.k",
    "SELECT a.k, b.at FROM SEQUENCE({below} a THEN r b MODE CHRONICLE WITHIN 9 ON a.k = b.k)",
    "SELECT a.k, b.at FROM SEQUENCE(r a THEN {below} b MODE RECENT ON a.k = b.k)",
    "SELECT k, changed_at FROM {below} a [RANGE 4, WA at] EXCEPT ON (k) r [RANGE 3, WA at]",
)
LATE = ("LATE SIDE", "LATE SIDE EMIT IN ORDER", "LATE AMEND FOR 5", "LATE AMEND")

Connect = Callable[[], ps.Database]
REFERENCE, LOCAL = (partial(ps.connect, engine) for engine in ("reference", "local"))


class Case(NamedTuple):
    """A query, the tuples of its streams, how late they come, what becomes of late ones, and after
    how many tuples a run ends."""

    sql: str
    left: Sequence[Row]
    right: Sequence[Row] = ()
    delay: int = 0
    late: str = "LATE SIDE"
    cuts: tuple[int, ...] = ()


class Answer(NamedTuple):
    rows: list[Row]
    late: list[Row]


def _level(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lengths = st.integers(1, 7)
    return st.builds(
        lambda below, window, f, one, other: LEVEL.format(
            below=f"({below}) q" if " " in below else below,
            w=window.format(max(one, other), min(one, other)),
            f=f,
        ),
        below,
        st.sampled_from(WINDOWS),
        st.sampled_from(["sum", "count", "max"]),
        lengths,
        lengths,
    )


_STACKS = st.recursive(st.just("l"), _level, max_leaves=3).filter(lambda sql: sql != "l")
STACKED = _STACKS | st.builds(
    lambda above, stack: above.format(below=f"({stack}) q").replace(") q a", ") a"),
    st.sampled_from(ABOVE),
    _STACKS,
)
CASES = st.builds(
    Case,
    STACKED | QUERIES,
    ROWS,
    ROWS,
    st.sampled_from([0, 3, 50]),
    st.sampled_from(LATE),
    st.lists(st.integers(0, 8), max_size=2).map(lambda cuts: tuple(sorted(cuts))),
)

_TICKS: list[Row] = [(1, at % 3, at) for at in range(0, 40, 2)]
_RUNNING = "(SELECT sum(v) AS v, window_end AS at [RANGE ALL, SLIDE 3, WA at] FROM l) q"
_TUMBLING = f"SELECT v, count(*) AS n [RANGE 16, SLIDE 16, WA at] FROM {_RUNNING} GROUP BY v"


def _too_large(below: str, late: str = "LATE AMEND FOR 5") -> Case:
    """A result that has no value, which is an error when nothing can change it any more."""
    sql = f"SELECT CAST(v * 1000000000 AS INT) AS w FROM ({below}) q"
    return Case(sql, [(1, 3, 4)], late=late)


ISSUED = [  # what runs with a checkpoint have once left out
    Case(_TUMBLING, _TICKS),
    Case(_TUMBLING, _TICKS, cuts=(7, 12)),
    Case(f"SELECT count(*) AS n [SESSION GAP 5, WA at] FROM {_RUNNING}", _TICKS, cuts=(7,)),
    _too_large("SELECT k, max(v) AS v, at FROM l GROUP BY k, at", "LATE AMEND"),
    _too_large("SELECT max(v) AS v [RANGE 4, SLIDE 2, WA at] FROM l"),
    _too_large("SELECT max(v) AS v [SESSION GAP 2, WA at] FROM l"),
    _too_large("SELECT DISTINCT ON (k) k, v [RANGE 4, SLIDE 4, WA at] FROM l"),
]


def refused(case: Case) -> bool:
    try:
        _query(case, None, REFERENCE)
    except PenstockError:
        return True
    return False


def without_checkpoint(case: Case, connect: Connect) -> Answer | str:
    """The answer, or the error that the run ends with."""
    return _answer(case, [None], connect, None)


def on_a_checkpoint(case: Case, connect: Connect) -> Answer | str:
    with TemporaryDirectory() as directory:
        return _answer(case, [*case.cuts, None], connect, Path(directory) / "kept")


def _answer(
    case: Case, cuts: Iterable[int | None], connect: Connect, checkpoint: Path | None
) -> Answer | str:
    rows: list[pa.RecordBatch] = []
    late: list[pa.RecordBatch] = []
    for cut in cuts:
        query = _query(case, cut, connect)
        options: dict[str, Any] = {}
        if checkpoint is not None:
            options = {"checkpoint": checkpoint, "final": cut is None}
        try:
            query.run(rows.append, late=late.append, **options)
        except PenstockError as error:
            return error.message
    return Answer(_left(rows), bag(row for each in late for row in tuples(each)))


def _query(case: Case, cut: int | None, connect: Connect) -> ps.Query:
    """Over so many tuples of each stream."""
    db = connect()
    for name, each in relations([*case.left], [*case.right], case.delay).items():
        if isinstance(each, Stream):
            db.stream(name, each.rows[:cut], schema=SCHEMA, progress=each.progress)
        else:
            db.table(name, each.rows, schema=each.schema)
    db.sql(SPLIT)
    text, *changes = case.sql.partition(" EMIT CHANGES")
    query = db.sql(f"{text} {case.late}{''.join(changes)}")
    assert isinstance(query, ps.Query)
    return query


def _left(batches: list[pa.RecordBatch]) -> list[Row]:
    """The rows, less those that have been taken back; with the number of each where they have
    signs."""
    left: Counter[Row] = Counter()
    for batch in batches:
        signs = batch.schema.names[-1].startswith("_sign")
        for row in bag(tuples(batch)):
            left[row[:-1] if signs else row] += row[-1] if signs else 1
    return sorted(((*row, count) for row, count in left.items() if count), key=repr)
