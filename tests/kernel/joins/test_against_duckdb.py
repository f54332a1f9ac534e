"""Joins of thousands of tuples, out of order, in step and not, agree with SQL that DuckDB runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.joins import pairing
from penstock.kernel.operator import Item, Operator, Progress
from penstock.plan.nodes.join import Join, JoinKind
from tests.kernel.joins.feeding import Needed, Outcome, feed, join_of, new
from tests.kernel.restarting import Restarting
from tests.local.joining import planned
from tests.reference.helpers import Stream

SCHEMA = "n BIGINT, i BIGINT, j INT, s STRING, d DOUBLE, t BIGINT"
DELAY = 400
WINDOWS = {
    "l [RANGE 50, WA t], r [RANGE 20, WA t]": "r.t - l.t <= 50 AND l.t - r.t <= 20",
    "l, r [RANGE TUMBLING 40, WA t]": "floor(l.t / 40.0) = floor(r.t / 40.0)",
    "l JOIN r ON r.t BETWEEN l.t + 10 AND l.t + 60": "r.t BETWEEN l.t + 10 AND l.t + 60",
}
CONDITIONS = [
    "l.i = r.i",
    "l.s = r.s AND l.j <> r.j",
    "l.i = r.i AND l.s = r.s",
    "l.d = r.d",
    "l.i % 10 = r.j AND l.n < r.n",
]
KINDS = {
    JoinKind.INNER: "SELECT l.n, r.n FROM l JOIN r ON {on}",
    JoinKind.LEFT: "SELECT l.n, r.n FROM l LEFT JOIN r ON {on}",
    JoinKind.RIGHT: "SELECT l.n, r.n FROM l RIGHT JOIN r ON {on}",
    JoinKind.FULL: "SELECT l.n, r.n FROM l FULL JOIN r ON {on}",
    JoinKind.SEMI: "SELECT l.n, NULL FROM l WHERE EXISTS (FROM r WHERE {on})",
    JoinKind.ANTI: "SELECT l.n, NULL FROM l WHERE NOT EXISTS (FROM r WHERE {on})",
}


def rows(rng: np.random.Generator, size: int) -> pa.RecordBatch:
    """Keys that come and go, NULLs, equal times, a lull in the middle, and times before 0."""
    steps = rng.integers(0, 4, size).cumsum() - size // 2
    late = rng.integers(0, DELAY // 2, size) * (rng.random(size) < 0.5)
    ticks = steps + (np.arange(size) > size // 2) * 10 * DELAY - late
    fresh = np.arange(size) // 20 + rng.integers(0, 30, size)
    doubles = rng.choice([0.0, -0.0, 1.5, 2.5, float("nan")], size)

    def some_null(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(size) < 0.05)

    return pa.record_batch(
        {
            "n": pa.array(np.arange(size)),
            "i": some_null(fresh * 10**12 - 5),
            "j": some_null(rng.integers(0, 10, size).astype(np.int32)),
            "s": some_null([f"key {each}" for each in fresh]),
            "d": some_null(doubles),
            "t": pa.array(ticks),
        }
    )


def expected(sql: str, **tables: pa.RecordBatch) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, batch in tables.items():
            connection.register(name, pa.Table.from_batches([batch]))
        # NaN equals nothing here, and itself there
        sql = sql.replace("l.d = r.d", "l.d = r.d AND NOT isnan(l.d)")
        return sorted(connection.sql(sql).fetchall(), key=repr)


def in_turns(
    node: Join, streams: tuple[pa.RecordBatch, pa.RecordBatch], rng: np.random.Generator
) -> Iterator[tuple[int, Item]]:
    """Pieces of all sizes of both streams, one of which may be far ahead of the other."""
    at = [0, 0]
    high = [-(2**62), -(2**62)]
    skew = rng.random()
    while any(begin < each.num_rows for begin, each in zip(at, streams, strict=True)):
        port = int(rng.random() < skew)
        if at[port] >= streams[port].num_rows:
            port = 1 - port
        size = int(rng.choice([1, 1, 3, 60, 700, 6000]))
        piece = streams[port].slice(at[port], size)
        at[port] += piece.num_rows
        names = [field.qualified for field in node.branches[port].schema]
        yield port, Batch(piece.rename_columns(names))
        if rng.random() < 0.7:
            high[port] = max(high[port], int(np.max(piece.column("t").to_numpy())))
            yield port, Progress({names[-1]: high[port] - DELAY})
    yield 0, Progress(ended=True)
    yield 1, Progress(ended=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_thousands_of_tuples(kind: JoinKind, window: str, condition: str) -> None:
    check(kind, window, condition)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.FULL, JoinKind.ANTI])
def test_keys_are_forgotten(kind: JoinKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MANY", 8)
    for window in WINDOWS:
        check(kind, window, CONDITIONS[2])


def check(kind: JoinKind, window: str, condition: str) -> None:
    rng = np.random.default_rng(crc32(f"{kind} {window} {condition}".encode()))
    left, right = rows(rng, 3000), rows(rng, 2500)
    stream = Stream(SCHEMA, [], ps.progress("t", delay=DELAY))
    sql = f"SELECT l.n FROM {window} WHERE {condition}"
    node = join_of(planned(sql, kind, None, l=stream, r=stream))
    needed = Needed(node)

    def look(operator: Operator, port: int, item: Item) -> None:
        needed.take_in(port, item)
        held = operator.metrics().rows
        assert held <= needed.rows + held // 5

    items = in_turns(node, (left, right), rng)
    if rng.random() < 0.5:
        found = feed(node, items, after=look)
    else:
        found = feed(node, items, Restarting(lambda: new(node), 7))
    on = f"{WINDOWS[window]} AND {condition}"
    assert sorted(numbers(found), key=repr) == expected(KINDS[kind].format(on=on), l=left, r=right)


def numbers(found: Outcome) -> list[tuple[int | None, int | None]]:
    made = []
    for batch in found.rows:
        columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
        nothing = pa.nulls(batch.num_rows)
        pair = [columns.get(name, nothing).to_pylist() for name in ("l.n", "r.n")]
        made += list(zip(*pair, strict=True))
    return made
