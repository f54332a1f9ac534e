"""Many windows in one batch leave together, and are those that leave one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.state import MemoryStore
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.panes import PaneMaker
from penstock.plan.nodes.aggregation import WindowAggregate

CHANCE = np.random.default_rng(11)
CALLS = "count(*) AS n, sum(x) AS s, max(x) AS hi, max_by(note, x) AS best"
WINDOWS = ["RANGE TUMBLING 10", "RANGE 25, SLIDE 10", "RANGE 10, SLIDE 15"]


def table(rows: int, spread: int, keys: int = 300) -> pa.Table:
    ticks = np.sort(CHANCE.integers(-spread, spread, rows)) + CHANCE.integers(0, 40, rows)
    return pa.table(
        {
            "t": ticks,
            "k": CHANCE.integers(0, keys, rows),
            "j": [["a", "b", None][each] for each in CHANCE.integers(0, 3, rows)],
            "x": CHANCE.integers(-9, 9, rows),
            "note": [f"n{each}" for each in CHANCE.integers(0, 50, rows)],
        }
    )


def query(given: pa.Table, size: int, window: str) -> ps.Query:
    db = ps.connect("local")
    db.stream("s", given.to_batches(size), progress=ps.progress("t", delay=50))
    sql = f"SELECT window_start, k, j, {CALLS} [{window}, WA t] FROM s GROUP BY k, j"
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def rows_of(found: pa.Table) -> list[object]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("spread", [40, 3_000, 2**61])
def test_the_same_in_all_cuts(spread: int, window: str) -> None:
    given = table(2_000, spread)
    whole = query(given, 2_000, window).collect()
    assert whole.num_rows > 100
    for size in (1, 64, 700):
        assert rows_of(query(given, size, window).collect()) == rows_of(whole)
    began = whole.column("window_start").to_pylist()
    assert began == sorted(began)


def operator(window: str) -> Paned:
    plan = query(table(1, 9), 1, window).plan
    return Paned(next(each for each in plan.walk() if isinstance(each, WindowAggregate)))


def released(given: pa.Table, cuts: list[int], restart: bool, window: str) -> list[object]:
    """With progress between the pieces of the input, and perhaps a new operator each time."""
    made, found, store = operator(window), [], MemoryStore()
    schema = pa.schema(pa.field(f"s.{each.name}", each.type) for each in given.schema)
    for begin, end in zip([0, *cuts], [*cuts, given.num_rows], strict=True):
        part = given.slice(begin, end - begin).combine_chunks()
        (batch,) = part.rename_columns(schema.names).to_batches()
        items = list(made.on_batch(0, Batch(batch)))
        reached = int(np.asarray(part.column("t")).max()) - 80
        items += made.on_progress(0, Progress({"s.t": reached}))
        found += [row for item in items if isinstance(item, Batch) for row in item.rows.to_pylist()]
        if restart:
            made.save(store)
            made = operator(window)
            made.load(store)
    items = list(made.on_progress(0, Progress({}, {}, ended=True)))
    found += [row for item in items if isinstance(item, Batch) for row in item.rows.to_pylist()]
    return found


@pytest.mark.parametrize("window", WINDOWS)
def test_restarts_and_small_batches_between(window: str) -> None:
    given = table(4_000, 3_000)
    given = given.take(np.argsort(np.asarray(given.column("t")), kind="stable"))
    cuts = [1_500, 1_501, 1_530, 3_000]
    plainly = released(given, cuts, restart=False, window=window)
    assert plainly == released(given, cuts, restart=True, window=window)
    assert sorted(map(repr, plainly)) == sorted(
        map(repr, released(given, [], restart=False, window=window))
    )


def begun_elsewhere(given: pa.Table, cuts: list[int], window: str, bound: int) -> list[Any]:
    """Panes of pieces of the input, all of which had this bound before them, then all progress."""
    made = operator(window)
    maker = PaneMaker(made.node)
    schema = pa.schema(pa.field(f"s.{each.name}", each.type) for each in given.schema)
    for begin, end in zip([0, *cuts], [*cuts, given.num_rows], strict=True):
        part = given.slice(begin, end - begin).combine_chunks()
        (batch,) = part.rename_columns(schema.names).to_batches()
        panes, _ = maker.panes(batch, None)
        made.on_partials(panes.save(maker.folder), lambda places: np.full(len(places), bound))
    items = made.on_progress(0, Progress({}, {}, ended=True))
    return [row for item in items if isinstance(item, Batch) for row in item.rows.to_pylist()]


@pytest.mark.parametrize("window", WINDOWS)
def test_panes_that_were_begun_elsewhere(window: str) -> None:
    given = table(4_000, 3_000)
    early = -(2**62)
    found = begun_elsewhere(given, [1_500, 1_530, 3_000], window, early)
    assert found == released(given, [], restart=False, window=window)
    # some of them are late: those go one by one
    some = begun_elsewhere(given, [1_500, 1_530, 3_000], window, 0)
    assert some == [row for row in found if row["window_end"] > 0]
