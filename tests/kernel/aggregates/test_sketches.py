"""Approximate aggregates: exact up to a limit, within their bounds beyond it, bounded in space."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.functions.aggregate_functions import AGGREGATES
from penstock.kernel.aggregates.aggregate import Aggregate
from penstock.kernel.aggregates.build import build
from penstock.kernel.aggregates.sketches import DISTINCT_LG_K, LIMIT
from penstock.kernel.state import pack, unpack
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.model.types import BIGINT, BINARY, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal_type
from penstock.model.values import to_arrow
from penstock.plan.expressions import AggregateCall, Column, Literal
from tests.planning import in_process

ROWS = 40_000
DISTINCT_ERROR = 3 * 1.04 / math.sqrt(1 << DISTINCT_LG_K)  # three standard errors
RANK_ERROR = 2 * 0.0133  # twice what holds 99 times in 100: the sketch draws lots
COUNT_ERROR = 0.0035
APPROXIMATE = [name for name in AGGREGATES if name.startswith("approx_")]
CONSTANTS = {
    "approx_quantile": Literal(0.5, DOUBLE),
    "approx_top_k": Literal(5, INT),
    "approx_heavy_hitters": Literal(0.05, DOUBLE),
}
TYPES: dict[Type, Any] = {
    STRING: lambda n: str(n) if n else "",
    BINARY: lambda n: n.to_bytes(3, "big"),
    DOUBLE: lambda n: n / 7,
    BIGINT: lambda n: n - 5,
    TIMESTAMP: lambda n: n * 10**6,
    decimal_type(12, 2): lambda n: Decimal(n).scaleb(-2),
}


def approximate(name: str, sql_type: Type, constant: Literal | None = None) -> Aggregate[Any]:
    function = AGGREGATES[name]
    chosen = constant or CONSTANTS.get(name)
    arguments = (Column("x", sql_type), *([chosen] if chosen else []))
    returns = function.returns(tuple(each.type for each in arguments))
    return build(AggregateCall(function, arguments, returns))


def exactly(name: str) -> Aggregate[Any]:
    if name == "approx_count_distinct":
        return build(AggregateCall(AGGREGATES["count"], (Column("x", DOUBLE),), BIGINT, True))
    return approximate(name.removeprefix("approx_"), DOUBLE, CONSTANTS[name])


def folded(what: Aggregate[Any], values: Sequence[Any], sql_type: Type) -> Any:
    partial = what.new(1)
    column = to_arrow(values, sql_type)
    what.fold(partial, np.zeros(len(values), np.int64), [column], np.zeros(len(values), np.int64))
    return partial


def finished(what: Aggregate[Any], partial: Any) -> Any:
    return what.finish(partial, np.array([0]))[0].as_py()


def in_pieces(what: Aggregate[Any], values: Sequence[Any], sql_type: Type, seed: int) -> Any:
    """Permuted, cut into panes of any size, merged in any order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(values))
    cuts = np.sort(rng.integers(0, len(values), 12))
    panes = [folded(what, [values[i] for i in piece], sql_type) for piece in np.split(order, cuts)]
    total = what.new(1)
    for i in rng.permutation(len(panes)):
        what.merge(total, panes[i])
    return total


def skewed(seed: int = 1) -> list[int]:
    """Few values make up the most, many occur once."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.zipf(1.25, ROWS), 10**6).tolist()


@pytest.mark.parametrize("sql_type", TYPES, ids=str)
def test_distinct_values_are_a_function_of_the_data(sql_type: Type) -> None:
    numbers = skewed()
    values = [TYPES[sql_type](number) for number in numbers]
    what = approximate("approx_count_distinct", sql_type)
    exact = len(set(numbers))
    assert exact > 10 * LIMIT
    found = {finished(what, in_pieces(what, values, sql_type, seed)) for seed in range(3)}
    found.add(finished(what, folded(what, values, sql_type)))
    assert len(found) == 1
    assert found.pop() == pytest.approx(exact, rel=DISTINCT_ERROR)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0])
def test_quantiles_are_near_in_rank(share: float) -> None:
    rng = np.random.default_rng(2)
    values = np.sort(rng.lognormal(0, 3, ROWS))
    what = approximate("approx_quantile", DOUBLE, Literal(share, DOUBLE))
    for total in (folded(what, values, DOUBLE), in_pieces(what, values, DOUBLE, 3)):
        rank = np.searchsorted(values, finished(what, total)) / ROWS
        assert rank == pytest.approx(share, abs=RANK_ERROR)


@pytest.mark.parametrize("sql_type", TYPES, ids=str)
def test_frequent_values(sql_type: Type) -> None:
    numbers = skewed()
    make = TYPES[sql_type]
    values = [make(number) for number in numbers]
    exact = Counter(numbers)
    shown = approximate("approx_heavy_hitters", sql_type)
    names = {
        json.dumps(json.loads(finished(shown, folded(shown, [make(n)], sql_type)))[0][0]): n
        for n in exact
        if exact[n] > ROWS * 0.01
    }
    for seed in range(2):
        total = in_pieces(shown, values, sql_type, seed)
        found = {names[json.dumps(v)]: c for v, c in json.loads(finished(shown, total))}
        assert {n for n, times in exact.items() if times >= 0.05 * ROWS} <= set(found)
        for number, times in found.items():
            assert exact[number] >= (0.05 - COUNT_ERROR) * ROWS
            assert exact[number] <= times <= exact[number] + COUNT_ERROR * ROWS
        top = approximate("approx_top_k", sql_type)
        best = json.loads(finished(top, in_pieces(top, values, sql_type, seed)))
        assert [names[json.dumps(v)] for v, _ in best] == [n for n, _ in exact.most_common(5)]


@pytest.mark.parametrize("name", APPROXIMATE)
def test_exact_up_to_the_limit_and_bounded_beyond(name: str) -> None:
    what = approximate(name, DOUBLE)
    exact = exactly(name)
    few = [float(n) for n in range(LIMIT)] * 3
    total = in_pieces(what, few, DOUBLE, 1)
    assert finished(what, total) == finished(exact, folded(exact, few, DOUBLE))
    assert not total.many
    what.merge(total, folded(what, [-1.0], DOUBLE))
    finished(what, total)
    assert list(total.many) == [0]
    for seed in range(4):
        what.merge(total, folded(what, np.random.default_rng(seed).normal(size=ROWS), DOUBLE))
        assert len(what.save(total)["sketches"][0]) < 40_000
        assert total.few.entries == 0


@pytest.mark.parametrize("name", APPROXIMATE)
def test_sketches_are_saved(name: str) -> None:
    what = approximate(name, DOUBLE)
    total = in_pieces(what, [float(n) for n in skewed()], DOUBLE, 1)
    before = finished(what, total)
    loaded = what.load(unpack(pack(what.save(total))))
    assert finished(what, loaded) == before
    moved = what.spread(what.take(loaded, np.array([0])), np.array([2]), 3)
    assert what.finish(moved, np.array([2, 0])).to_pylist() == [before, None]
    what.merge(moved, what.spread(folded(what, [7.5] * ROWS, DOUBLE), np.array([2]), 3))
    assert finished(what, loaded) == before


def test_values_that_are_equal_are_one() -> None:
    values = [float(n) for n in range(1, 2 * LIMIT)]
    what = approximate("approx_count_distinct", DOUBLE)
    zero = finished(what, folded(what, [*values, 0.0, math.nan], DOUBLE))
    odd = np.array([math.nan, -math.nan, 0.0, -0.0]).tolist()
    assert finished(what, folded(what, [*values, *odd], DOUBLE)) == zero


def test_nan_is_the_largest_number_of_a_sketch() -> None:
    what = approximate("approx_quantile", DOUBLE, Literal(0.9, DOUBLE))
    numbers = [float(n) for n in range(1000)]
    assert math.isnan(finished(what, folded(what, numbers + [math.nan] * 500, DOUBLE)))
    assert finished(what, folded(what, [*numbers, math.inf], DOUBLE)) < 1000


def test_in_windows() -> None:
    """Beside the exact answers of the same windows."""
    rng = np.random.default_rng(4)
    table = pa.table(
        {"t": np.arange(ROWS) // 100, "x": rng.zipf(1.3, ROWS).clip(max=10**6).astype(float)}
    )
    db = ps.connect()
    db.stream("s", table, progress=ps.progress("t", ordered=True))
    query = db.sql(
        "SELECT count(DISTINCT x) AS d, approx_count_distinct(x) AS ad, top_k(x, 2) AS k,"
        " approx_top_k(x, 2) AS ak, quantile(x, 0.9) AS q, approx_quantile(x, 0.9) AS aq,"
        " approx_heavy_hitters(x, 0.2) AS ah [RANGE 150, SLIDE 50, WA t] FROM s"
    )
    assert isinstance(query, ps.Query)
    rows = answer(in_process(query.plan), ManualClock()).table.to_pylist()
    assert max(row["d"] for row in rows) > LIMIT
    for row in rows:
        assert row["ad"] == pytest.approx(row["d"], rel=DISTINCT_ERROR)
        assert [v for v, _ in json.loads(row["ak"])] == [v for v, _ in json.loads(row["k"])]
        assert json.loads(row["ah"])[0][0] == json.loads(row["k"])[0][0]
        inside = (table["t"].to_numpy() >= row["window_start"]) & (
            table["t"].to_numpy() < row["window_end"]
        )
        x = table["x"].to_numpy()[inside]
        below, upto = (x < row["aq"]).mean(), (x <= row["aq"]).mean()
        assert below - RANK_ERROR <= 0.9 <= upto + RANK_ERROR
