"""What DISTINCT ON keeps: a row of every key and pane, and chunks that are written when touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.groups.distinct import DistinctOnOperator
from penstock.kernel.operator import LateRows, Progress
from penstock.kernel.state import MemoryStore
from penstock.plan.nodes.aggregation import DistinctOn


def operator_for(window: str, keys: str = "k", columns: str = "x", order: str = "") -> Any:
    db = ps.connect("reference")
    db.stream("s", [], schema="k STRING, x INT, t INT", progress=ps.progress("t", delay=9))
    query = db.sql(f"SELECT DISTINCT ON ({keys}) {columns} [{window}, WA t] FROM s {order}")
    assert isinstance(query, ps.Query)
    (node,) = [each for each in query.plan.walk() if isinstance(each, DistinctOn)]
    return DistinctOnOperator(node)


def batch_of(rows: list[tuple[Any, ...]], broken: list[int | None] | None = None) -> Batch:
    columns = [[row[i] for row in rows] for i in range(3)]
    types = [pa.string(), pa.int32(), pa.int32()]
    arrays = [pa.array(each, of) for each, of in zip(columns, types, strict=True)]
    made = pa.RecordBatch.from_arrays(arrays, ["s.k", "s.x", "s.t"])
    bounds = None if broken is None else {"s.t": pa.array(broken, pa.int64())}
    return Batch(made, broken=bounds)


def rows_of(items: list[Any]) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values())
        for each in items
        if isinstance(each, Batch)
        for row in each.rows.to_pylist()
    ]


@pytest.mark.parametrize("size", [1, 500, 10_000])
def test_one_row_of_every_key_and_pane(size: int) -> None:
    operator = operator_for("RANGE 100, SLIDE 50")
    rng = np.random.default_rng(1)
    rows = [("abc"[n % 3], int(rng.integers(9)), n % 200) for n in range(10_000)]
    for begin in range(0, len(rows) if size > 1 else 3000, size):
        operator.on_batch(0, batch_of(rows[begin : begin + size]))
    assert operator.rows_held() <= 4 * 2 * 1024
    operator.save(MemoryStore())
    assert operator.rows_held() == 3 * 4  # panes of 50
    assert operator.metrics().open == 5


def test_closed_windows_are_given_out_once_and_forgotten() -> None:
    operator = operator_for("RANGE 10, SLIDE 5")
    operator.on_batch(0, batch_of([("a", 1, 1), ("a", 2, 6), ("b", 3, 7), ("a", 4, 12)]))
    first = operator.on_progress(0, Progress({"s.t": 6}))
    assert rows_of(first) == [(0, -5, 5, 1)]
    assert first[-1] == Progress(
        {"window_id": 1, "window_start": 0, "window_end": 10},
        {"window_id": 0, "window_start": -5, "window_end": 5},
    )
    assert rows_of(operator.on_progress(0, Progress({"s.t": 6}))) == []
    second = operator.on_progress(0, Progress({"s.t": 16}))
    assert rows_of(second) == [(1, 0, 10, 1), (1, 0, 10, 3), (2, 5, 15, 2), (2, 5, 15, 3)]
    assert operator.rows_held() == 1
    assert operator.open_results().spans == ((3, 4),)


def test_a_late_tuple_counts_in_the_windows_that_are_open() -> None:
    """Its row is the least, and the first of the window that it did not miss."""
    operator = operator_for("RANGE 10, SLIDE 5")
    operator.on_batch(0, batch_of([("a", 2, 6)]))
    (late,) = operator.on_batch(0, batch_of([("a", 1, 3)], broken=[7]))
    assert isinstance(late, LateRows)
    assert late.batch.to_pylist()[0]["missed_last"] == 0
    assert rows_of(operator.on_progress(0, Progress(ended=True))) == [(1, 0, 10, 1), (2, 5, 15, 2)]


def test_only_what_was_touched_is_written() -> None:
    operator, store = operator_for("RANGE 10, SLIDE 10"), Watched()
    operator.on_batch(0, batch_of([("a", 1, 1), ("a", 2, 12)]))
    operator.save(store)
    assert store.written == {"rows/1", "rows/2", "run"}
    store.written.clear()
    operator.on_batch(0, batch_of([("b", 1, 13)]))
    operator.save(store)
    assert store.written == {"rows/2", "run"}
    operator.on_progress(0, Progress({"s.t": 11}))
    operator.save(store)
    assert set(store.names()) == {"rows/2", "run"}
    other = operator_for("RANGE 10, SLIDE 10")
    other.load(store)
    assert rows_of(other.on_progress(0, Progress(ended=True))) == [(1, 10, 20, 2), (1, 10, 20, 1)]


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.written: set[str] = set()

    def put(self, key: str, chunk: Any) -> None:
        self.written.add(key)
        super().put(key, chunk)
