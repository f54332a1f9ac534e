"""When intermediate results are kept: inequality 1, with the waiting of equation 2, down to streams
that are static."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.optimizer.explain_dataflow import Container, slot
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import statistics_of
from penstock.plan.nodes.join import Join

TIMES = st.floats(0, 1e6)


@given(TIMES, TIMES, TIMES, TIMES)
def test_nobody_waits_for_static_streams(
    recording: float, filling: float, reading: float, recomputing: float
) -> None:
    """What is left of inequality 1 is whether reading is faster than computing anew."""
    container = Container(recording, filling, reading, recomputing)
    assert container.waiting(slot(0)) == 0
    assert container.pays(slot(0)) is (reading < recomputing)


@given(TIMES, TIMES, st.lists(st.floats(1e-9, 1e3), min_size=2, max_size=6))
def test_the_slower_streams_are_the_shorter_is_the_waiting(
    recording: float, filling: float, rates: list[float]
) -> None:
    container = Container(recording, filling, reading=1.0, recomputing=2.0)
    waits = [container.waiting(slot(rate)) for rate in sorted(rates)]
    assert all(one <= other for one, other in pairwise(waits))
    assert all(0 <= wait <= filling for wait in waits)


def query(rates: tuple[int, int, int]) -> ps.Query:
    """Tuples a second, over ten of them."""
    db = ps.connect("local")
    for seed, (name, rate) in enumerate(zip("abc", rates, strict=True)):
        generator = np.random.default_rng(seed)
        times = np.sort(generator.integers(0, 10_000_000, 10 * rate))
        table = pa.table(
            {
                "k": generator.integers(0, 5, 10 * rate),
                "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            }
        )
        db.stream(name, table.to_batches(2 * rate), progress=ps.progress("ts", ordered=True))
    windows = ", ".join(f"{name} [RANGE 5 SECONDS, WA ts]" for name in "abc")
    found = db.sql(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.k = c.k")
    assert isinstance(found, ps.Query)
    return found


def test_explain_says_how_long_a_tuple_waits() -> None:
    shown = query((2, 2, 20_000)).explain(dataflow=True)
    kept = re.search(r"w_ab is kept: τ_wait (.+) against (.+) saved, for a tuple of c", shown)
    assert kept is not None, shown
    assert kept[1] == "0 ns"  # the last tuple of a or b came half a second ago


@pytest.mark.parametrize("part", [1.0, 1e-3, 1e-6, 0.0])
def test_containers_stay_where_streams_become_static(part: float) -> None:
    """What is kept of two streams is read by the third, however seldom they say anything."""
    (join,) = (node for node in query((2, 2, 20_000)).plan.walk() if isinstance(node, Join))
    given_ = statistics_of(join)
    slow = [replace(each, rate=each.rate * part, ends=()) for each in given_.inputs[:2]]
    statistics = replace(given_, inputs=(*slow, replace(given_.inputs[2], ends=())))
    tree = Search(JoinCosts(join, statistics)).containing().tree
    if part:
        assert tree.named("abc") == "((a b) c)"
    assert sorted(tree.leaves) == [0, 1, 2]  # there is a plan even if nothing ever comes
