"""corr, covar and regr: exact whatever is merged and subtracted, and as DuckDB computes them."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.functions.aggregate_functions import PAIR_STATISTICS
from penstock.kernel.aggregates.sums import OfPairs, PairSums

Pairs = list[tuple[int, float, float]]
small = st.integers(-50, 50).map(lambda each: each / 4)
pairs = st.lists(st.tuples(st.integers(0, 2), small, small), max_size=12)
wild = st.floats(-1e100, 1e100)
wild_pairs = st.lists(st.tuples(st.integers(0, 2), wild, wild), max_size=8)


def folded(aggregate: OfPairs, rows: Pairs) -> PairSums:
    partial = aggregate.new(3)
    if rows:
        columns = [pa.array([row[place] for row in rows]) for place in (1, 2)]
        aggregate.fold(partial, np.array([row[0] for row in rows]), columns)
    return partial


def results(aggregate: OfPairs, rows: Pairs) -> list[float | None]:
    column = aggregate.finish(folded(aggregate, rows), np.arange(3))
    found: list[float | None] = column.to_pylist()
    return found


@pytest.mark.parametrize("name", PAIR_STATISTICS)
@given(rows=pairs)
@settings(deadline=None, max_examples=40)
def test_as_duckdb(name: str, rows: Pairs) -> None:
    mine = results(OfPairs(name), rows)
    for group in range(3):
        own = [(y, x) for each, y, x in rows if each == group]
        if not own:
            assert mine[group] is None
            continue
        values = ", ".join(f"({y}::DOUBLE, {x}::DOUBLE)" for y, x in own)
        sql = f"SELECT {name}(y, x) FROM (VALUES {values}) AS t(y, x)"
        (theirs,) = duckdb.execute(sql).fetchone() or (None,)
        if theirs is None or math.isnan(theirs):
            assert mine[group] is None
        elif mine[group] is not None:  # of points on a line upwards, DuckDB may see a slope
            assert mine[group] == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", PAIR_STATISTICS)
@given(one=wild_pairs, other=wild_pairs)
@settings(deadline=None, max_examples=30)
def test_merged_and_subtracted(name: str, one: Pairs, other: Pairs) -> None:
    aggregate = OfPairs(name)
    both = folded(aggregate, one)
    aggregate.merge(both, folded(aggregate, other))
    every = np.arange(3)
    assert aggregate.finish(both, every).equals(
        aggregate.finish(folded(aggregate, one + other), every)
    )
    aggregate.subtract(both, folded(aggregate, other))
    loaded = aggregate.load(aggregate.save(both))
    assert aggregate.finish(loaded, every).to_pylist() == results(aggregate, one)


def test_infinities() -> None:
    rows = [(0, 1.0, math.inf), (0, 2.0, 3.0), (1, math.nan, 1.0), (2, 1.0, 2.0)]
    found = results(OfPairs("covar_pop"), rows)
    assert str(found) == "[nan, nan, 0.0]"
    assert str(results(OfPairs("covar_samp"), rows)) == "[nan, None, None]"
