"""What is defined by values does not depend on the order of arrival, down to the last bit."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, tuples

WINDOWS = {
    "sliding": "RANGE 10, SLIDE 5, WA t",
    "sliding, no multiple": "RANGE 7, SLIDE 3, WA t",
    "sliding with gaps": "RANGE 2, SLIDE 5, WA t",
    "tumbling": "RANGE TUMBLING 6, WA t",
    "landmark": "RANGE ALL, SLIDE 8, WA t",
    "slide by tuple": "RANGE 6, RATTR t, SLIDE 1 ROW, SATTR row-num",
    "slide by rank": "RANGE 6, RATTR t, SLIDE 1 ROW, SATTR rank(t)",
}
# Among equal times arrival decides the rank, so these need times that are all different.
RANKED = {
    "rows": "RANGE 4 ROWS, SLIDE 2 ROWS, WA rank(t)",
    "all rows in partitions": "RANGE ALL, SLIDE 3 ROWS, WA rank(t), PA k",
    "rows in partitions": "RANGE 3 ROWS, SLIDE 1 ROW, WA rank(t), PA k",
    "every third": "RANGE 9, RATTR t, SLIDE 3 ROWS, SATTR rank(t)",
    "every second in partitions": "RANGE 9, RATTR t, SLIDE 2 ROWS, SATTR rank(t), PA k",
}
AGGREGATES = [
    *("count(*)", "count(x)", "count(DISTINCT x)", "sum(x)", "sum(DISTINCT x)", "avg(x)"),
    *("min(x)", "max(x)", "first(x)", "last(x)", "median(x)", "quantile(x, 0.9)", "mode(x)"),
    *("var_samp(x)", "var_pop(x)", "stddev_samp(x)", "stddev_pop(x)"),
    *("top_k(x, 3)", "heavy_hitters(x, 0.25)"),
    *("approx_count_distinct(x)", "approx_quantile(x, 0.2)"),
    *("sum(m)", "avg(m)", "min(k)", "last(k)", "sum(x) FILTER (WHERE x > 0e0)"),
]
# Added one after the other, these lose the 1 between the large ones, or overflow.
DOUBLES = [1e16, 1.0, -1e16, 1e308, 1e308, -1e308, 5e-324, 0.1, -0.1, 3.0, float("inf")]
DECIMALS = [Decimal("0.001"), Decimal("-99999999999999999999.999"), Decimal("12345678901.5")]
SCHEMA = "k STRING, x DOUBLE, m DECIMAL(30,3), t INT"
SEEDS = range(8)


def random_rows(rng: random.Random, size: int, unique: bool = False) -> list[Row]:
    times = rng.sample(range(-20, 30), size) if unique else rng.choices(range(-9, 9), k=size)
    return [
        (
            rng.choice(["a", "b", None]),
            rng.choice([*DOUBLES, None]),
            rng.choice([*DECIMALS, None]),
            t,
        )
        for t in times
    ]


def answer(window: str, keys: str, rows: list[Row], progress: Any, late: str) -> list[Row]:
    query = ask(
        f"SELECT window_id, window_start, window_end, {', '.join(AGGREGATES)} [{window}] "
        f"FROM s {keys} LATE {late}",
        s=Stream(SCHEMA, rows, progress),
    )
    found = bag(tuples(query.collect()))
    assert late == "AMEND" or query.account.late == 0
    return found


def check(window: str, keys: str, rows: list[Row], rng: random.Random) -> None:
    other = rng.sample(rows, len(rows))
    expected = answer(window, keys, rows, ps.progress("t", ordered=True), "AMEND")
    assert answer(window, keys, other, ps.progress("t", ordered=True), "AMEND") == expected
    patient = rng.choice([ps.progress("t", delay=50), ps.progress("t", slack=len(rows))])
    assert answer(window, keys, other, patient, "DROP") == expected


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_any_order(window: str) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        check(window, "GROUP BY k" * (seed % 2), random_rows(rng, 14), rng)


@pytest.mark.parametrize("window", RANKED.values(), ids=RANKED.keys())
def test_any_order_of_different_times(window: str) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        check(window, "", random_rows(rng, 14, unique=True), rng)


OPERATORS = {
    "group by time": "SELECT t, k, sum(x), last(x) FROM s GROUP BY t, k",
    "distinct": "SELECT DISTINCT k, t FROM s",
    "join": "SELECT a.x, b.x FROM s a [RANGE 5, WA t], s b [RANGE 2, WA t] WHERE a.k = b.k",
    "recent": "SELECT a.x, b.x FROM SEQUENCE(s a THEN u b MODE RECENT ON a.k = b.k)",
    "chronicle": "SELECT a.x, b.x FROM SEQUENCE(s a THEN u b MODE CHRONICLE WITHIN 9)",
    "difference": "SELECT * FROM s [RANGE 9, WA t] EXCEPT ON (k) u [RANGE 4, WA t]",
    "nested": "SELECT max(n) [RANGE 20, SLIDE 10, WA window_end] FROM "
    "(SELECT window_end, count(*) AS n [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k)",
}


@pytest.mark.parametrize("sql", OPERATORS.values(), ids=OPERATORS.keys())
def test_other_operators(sql: str) -> None:
    """Times are all different here, because arrival decides about ties in sequences."""

    def over(s: list[Row], u: list[Row]) -> list[Row]:
        query = ask(
            f"{sql} LATE AMEND",
            s=Stream(SCHEMA, s, ps.progress("t", ordered=True)),
            u=Stream(SCHEMA, u, ps.progress("t", ordered=True)),
        )
        return bag(tuples(query.collect()))

    for seed in range(20):
        rng = random.Random(seed)
        given = [random_rows(rng, 12, unique=True) for _ in "su"]
        assert over(*given) == over(*(rng.sample(rows, len(rows)) for rows in given))


def in_every_order(call: str, rows: list[Row]) -> set[str]:
    """The results of an aggregate, in full precision, over all orders of a window's rows."""
    found = set()
    for order in permutations(rows):
        query = ask(
            f"SELECT {call} AS y [RANGE 10, SLIDE 10, WA t] FROM s LATE AMEND",
            s=Stream("x DOUBLE, t INT", order, ps.progress("t", ordered=True)),
        )
        found.add(repr(query.collect().column("y").to_pylist()))
    return found


@pytest.mark.parametrize(
    ("call", "values", "expected"),
    [
        ("sum(x)", [1e16, 1.0, -1e16], 1.0),
        ("avg(x)", [1e16, 2.0, -1e16, 2.0], 1.0),
        ("sum(x)", [1e308, 1e308, -1e308], 1e308),
        ("sum(x)", [0.1] * 3, 0.30000000000000004),  # the nearest to 3 times the double 0.1
        ("sum(x)", [1e308, 1e308, 1e308], float("inf")),
        ("sum(x)", [float("inf"), -1e308, 1.0], float("inf")),
        ("sum(x)", [float("inf"), float("-inf"), 1.0], float("nan")),
        ("var_pop(x)", [1e16, 1e16 + 2, 1e16 + 4], 8 / 3),
        ("stddev_pop(x)", [1e16, 1e16 + 4], 2.0),
        ("median(x)", [1e308, 1.5e308], 1.25e308),
        ("mode(x)", [2.0, 1.0, 2.0, 1.0], 1.0),
        ("max(x)", [1.0, float("nan"), 2.0], float("nan")),
        ("min(x)", [1.0, float("nan"), 2.0], 1.0),
        ("first(x)", [3.0, 1.0, 2.0], 1.0),
        ("last(x)", [3.0, 1.0, 2.0], 3.0),
    ],
)
def test_exact_in_every_order(call: str, values: list[float], expected: float) -> None:
    rows = [(value, 0) for value in values]
    assert in_every_order(call, rows) == {repr([expected])}


@pytest.mark.parametrize(
    "call", ["min(x)", "max(x)", "first(x)", "last(x)", "mode(x)", "median(x)", "top_k(x, 1)"]
)
def test_zeros_in_every_order(call: str) -> None:
    assert len(in_every_order(call, [(0.0, 0), (-0.0, 0)])) == 1


def test_distinct_zeros_in_every_order() -> None:
    found = [
        tuples(
            ask(
                "SELECT DISTINCT x, t FROM s LATE AMEND",
                s=Stream("x DOUBLE, t INT", rows, ps.progress("t", ordered=True)),
            ).collect()
        )
        for rows in permutations([(0.0, 0), (-0.0, 0)])
    ]
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("call", ["first(DISTINCT x)", "last(DISTINCT x)"])
def test_first_and_last_distinct_in_every_order(call: str) -> None:
    assert len(in_every_order(call, [(1.0, 1), (2.0, 2), (1.0, 3)])) == 1
