"""Windows and aggregates agree with SQL that DuckDB runs, written from the definitions alone.

Every window is a join of window ids with the condition of its extent.  Nothing is late here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, tuples

SIZE = 40
SEEDS = [1, 2, 3]


class Attribute(NamedTuple):
    """A type to progress on; `scale` ticks make one of the units that lengths are given in."""

    type: str
    unit: str
    scale: int
    step: int  # what the random values are multiples of
    seven: str  # an ORIGIN seven units after zero

    def value(self, tick: int) -> Any:
        return Decimal(tick).scaleb(-2) if self.type.startswith("DECIMAL") else tick

    def tick(self, value: Any) -> Any:
        return int(value.scaleb(2)) if isinstance(value, Decimal) else value


ATTRIBUTES = [
    Attribute("BIGINT", "", 1, 1, "7"),
    Attribute("INT", "", 1, 1, "7"),
    Attribute("TIMESTAMP", " SECONDS", 1_000_000, 250_000, "'1970-01-01 00:00:07'"),
    Attribute("DATE", " DAYS", 1, 1, "'1970-01-08'"),
    Attribute("DECIMAL(9,2)", "", 100, 25, "7"),
]

# What Penstock computes, and the same in DuckDB; `pos` is the position in the window.
AGGREGATES = {
    "count(*)": "count(*)",
    "count(x)": "count(x)",
    "count(DISTINCT x)": "count(DISTINCT x)",
    "sum(x)": "sum(x)",
    "sum(DISTINCT x)": "sum(DISTINCT x)",
    "min(x)": "min(x)",
    "max(x)": "max(x)",
    "avg(x)": "avg(x)",
    "sum(d)": "sum(d)",
    "avg(d)": "avg(d)",
    "min(d)": "min(d)",
    "max(d)": "max(d)",
    "var_samp(d)": "var_samp(d)",
    "var_pop(d)": "var_pop(d)",
    "stddev_samp(d)": "stddev_samp(d)",
    "stddev_pop(d)": "stddev_pop(d)",
    "median(d)": "median(d)",
    "quantile(d, 0.3)": "quantile_cont(d, 0.3)",
    "quantile_disc(x, 0.3)": "quantile_disc(x, 0.3)",
    "quantile_disc(d, 0.75)": "quantile_disc(d, 0.75)",
    "quantile(x, 1)": "quantile_cont(x, 1.0)",
    "sum(m)": "sum(m)",
    "max(m)": "max(m)",
    "avg(m)": "avg(m)",
    "min(k)": "min(k)",
    "count(x) FILTER (WHERE d > 0)": "count(x) FILTER (WHERE d > 0)",
    "first(x)": "first(x ORDER BY pos, x) FILTER (WHERE x IS NOT NULL)",
    "last(x)": "last(x ORDER BY pos, x) FILTER (WHERE x IS NOT NULL)",
    "mode(x)": "histogram(x)",  # how DuckDB's own mode breaks ties is its own affair
}


class Case(NamedTuple):
    """A window, and its extents in SQL: wid, opener, ws, we, pos and the columns of s."""

    window: str
    extents: str
    partitioned: bool = False


def sliding(length: int, slide: int, on: Attribute, origin: int = 0) -> Case:
    r, s, o = length * on.scale, slide * on.scale, origin * on.scale
    extents = f"""
        SELECT wid, 0 AS opener, (wid + 1) * {s} - {r} + {o} AS ws, (wid + 1) * {s} + {o} AS we,
               t AS pos, s.*
        FROM (SELECT unnest(generate_series(-300, 300)) AS wid) JOIN s
        ON (wid + 1) * {s} - {r} <= t - {o} AND t - {o} < (wid + 1) * {s}"""
    at = f", ORIGIN {on.seven}" if origin else ""
    return Case(f"RANGE {length}{on.unit}, SLIDE {slide}{on.unit}, WA t{at}", extents)


def landmark(slide: int, on: Attribute, origin: int = 0) -> Case:
    s, o = slide * on.scale, origin * on.scale
    extents = f"""
        SELECT wid, 0 AS opener, NULL AS ws, (wid + 1) * {s} + {o} AS we, t AS pos, s.*
        FROM (SELECT unnest(generate_series(-300, 300)) AS wid) JOIN s
        ON t - {o} < (wid + 1) * {s} WHERE wid * {s} <= (SELECT max(t) FROM s) - {o}"""
    at = f", ORIGIN {on.seven}" if origin else ""
    return Case(f"RANGE ALL, SLIDE {slide}{on.unit}, WA t{at}", extents)


def by_tuple(length: int, every: int, on: Attribute, order: str, partitioned: bool) -> Case:
    """Every n-th tuple o, counted by arrival or by rank, opens {u : o.t - r < u.t <= o.t}."""
    within = "PARTITION BY k" if partitioned else ""
    same = "u.k IS NOT DISTINCT FROM o.k" if partitioned else "true"
    extents = f"""
        SELECT o.t AS wid, o.n AS opener, o.t - {length * on.scale} AS ws, o.t AS we,
               u.t AS pos, u.*
        FROM (SELECT *, row_number() OVER ({within} ORDER BY {_counted(order)}) - 1 AS c FROM s) o
        JOIN s u ON o.t - {length * on.scale} < u.t AND u.t <= o.t AND {same}
        WHERE o.c % {every} = 0"""
    window = f"RANGE {length}{on.unit}, RATTR t, SLIDE {every} ROWS, SATTR {order}"
    return Case(window + ", PA k" * partitioned, extents, partitioned)


def by_rows(length: int | None, slide: int, order: str, partitioned: bool) -> Case:
    within = "PARTITION BY k" if partitioned else ""
    start = "NULL" if length is None else f"(wid + 1) * {slide} - {length}"
    lower = f"wid * {slide} <= last" if length is None else f"{start} <= c"
    extents = f"""
        SELECT wid, 0 AS opener, {start} AS ws, (wid + 1) * {slide} AS we, c AS pos, r.*
        FROM (SELECT unnest(generate_series(0, 200)) AS wid)
        JOIN (SELECT *, max(c) OVER ({within}) AS last FROM (
                SELECT *, row_number() OVER ({within} ORDER BY {_counted(order)}) - 1 AS c FROM s
             )) r
        ON {lower} AND c < (wid + 1) * {slide}"""
    wide = "ALL" if length is None else f"{length} ROWS"
    window = f"RANGE {wide}, SLIDE {slide} ROWS, WA {order}"
    return Case(window + ", PA k" * partitioned, extents, partitioned)


def _counted(order: str) -> str:
    return "t, n" if order == "rank(t)" else "n"


def cases(on: Attribute) -> Iterator[Case]:
    for length, slide in ((10, 5), (10, 10), (11, 4), (3, 7), (1, 1)):
        yield sliding(length, slide, on)
    yield sliding(9, 4, on, origin=7)
    yield landmark(9, on)
    yield landmark(5, on, origin=7)
    for order in ("row-num", "rank(t)"):
        for partitioned in (False, True):
            for length, every in ((6, 1), (6, 3)):
                yield by_tuple(length, every, on, order, partitioned)
            for rows, slide in ((6, 2), (7, 3), (2, 5), (None, 4)):
                yield by_rows(rows, slide, order, partitioned)


def random_table(seed: int, on: Attribute) -> pa.Table:
    """`n` counts arrivals, `t` is a tick: many are equal, and many before 1970."""
    rng = np.random.default_rng(seed)

    def nullable(values: list[Any]) -> list[Any]:
        missing = rng.random(SIZE) < 0.2
        return [None if lost else v for v, lost in zip(values, missing, strict=True)]

    thousandths = rng.integers(-9999, 9999, SIZE).tolist()
    return pa.table(
        {
            "n": pa.array(range(SIZE), pa.int64()),
            "k": pa.array(nullable(rng.choice(["a", "b", "ü"], SIZE).tolist()), pa.string()),
            "x": pa.array(nullable(rng.integers(-4, 5, SIZE).tolist()), pa.int64()),
            "d": pa.array(nullable(rng.normal(0, 100, SIZE).tolist()), pa.float64()),
            "m": pa.array(
                nullable([Decimal(v).scaleb(-3) for v in thousandths]), pa.decimal128(12, 3)
            ),
            "t": pa.array((rng.integers(-50, 70, SIZE) * on.step).tolist(), pa.int64()),
        }
    )


def in_duckdb(table: pa.Table, case: Case, keys: str) -> list[Row]:
    with duckdb.connect() as connection:
        connection.register("s", table)
        found = connection.execute(
            f"SELECT wid, ws, we{keys}, {', '.join(AGGREGATES.values())} FROM ({case.extents}) "
            f"GROUP BY wid, opener, ws, we{keys}"
        ).fetchall()
    return [(*row[:-1], _mode(row[-1])) for row in found]


def _mode(histogram: dict[int, int] | None) -> int | None:
    """The most frequent value, the least of several."""
    if not histogram:
        return None
    return min(histogram, key=lambda value: (-histogram[value], value))


def in_penstock(table: pa.Table, case: Case, on: Attribute, keys: str, grouped: bool) -> list[Row]:
    rows = [(*row[1:-1], on.value(row[-1])) for row in tuples(table)]
    schema = f"k STRING, x BIGINT, d DOUBLE, m DECIMAL(12,3), t {on.type}"
    query = ask(
        f"SELECT window_id, window_start, window_end{keys}, {', '.join(AGGREGATES)} "
        f"[{case.window}] FROM s {'GROUP BY k' if grouped else ''} LATE AMEND",
        s=Stream(schema, rows, ps.progress("t", ordered=True)),
    )
    found = tuples(query.collect())
    return [(*map(on.tick, row[:3]), *row[3:]) for row in found]


def assert_same(found: list[Row], expected: list[Row]) -> None:
    """The same rows; doubles to nine places, because DuckDB rounds on the way."""
    assert len(found) == len(expected)
    for mine, theirs in zip(_ordered(found), _ordered(expected), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            if isinstance(one, float) and other is not None:
                assert math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9), (mine, theirs)
            else:
                assert one == other, (mine, theirs)


def _ordered(rows: list[Row]) -> list[Row]:
    # The window, the key and the first counts tell the rows apart without looking at doubles;
    # results that several tuples of a slide-by-tuple window share are the same in all columns.
    return sorted(rows, key=lambda row: [(v is None, str(v)) for v in row[:10]])


def parameters() -> Iterator[Any]:
    """Every window over times with every seed; the other types share windows and seeds."""
    for turn, on in enumerate(ATTRIBUTES):
        for number, case in enumerate(cases(on)):
            seeds = SEEDS if on.type == "TIMESTAMP" else [SEEDS[number % len(SEEDS)]]
            if on.type != "TIMESTAMP" and number % 2 != turn % 2:
                continue
            grouped = not case.partitioned and number % 3 != 1
            for seed in seeds:
                name = f"{on.type} {case.window} seed {seed}"
                yield pytest.param(case, on, seed, grouped, id=name)


@pytest.mark.parametrize(("case", "on", "seed", "grouped"), list(parameters()))
def test_windows_agree(case: Case, on: Attribute, seed: int, grouped: bool) -> None:
    table = random_table(seed, on)
    keys = ", k" if grouped or case.partitioned else ""
    found = in_penstock(table, case, on, keys, grouped)
    assert found
    assert_same(found, in_duckdb(table, case, keys))
