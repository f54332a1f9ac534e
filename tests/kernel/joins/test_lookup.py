"""The operator that looks tuples up: what passes, in which order, and in which pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import EngineError
from penstock.kernel.batch import Batch
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.operator import Progress
from penstock.kernel.state import MemoryStore
from penstock.model.punctuation import JointPunctuation
from penstock.plan.nodes.join import Lookup

ROWS = [("a", 1), (None, 2), ("b", 3), ("a", 4), ("c", 5)]
TABLE = [("a", 10), ("b", 20), ("a", 30), (None, 40)]


def node_of(join: str, columns: str = "s.k, s.t, r.v") -> Lookup:
    db = ps.connect("reference")
    db.stream("s", ROWS, schema="k STRING, t INT", progress=ps.progress("t", delay=9))
    db.table("r", TABLE, schema="k STRING, v INT")
    query = db.sql(f"SELECT {columns} FROM s {join}")
    assert isinstance(query, ps.Query)
    (node,) = [each for each in query.plan.walk() if isinstance(each, Lookup)]
    return node


def filled(node: Lookup, table: list[Any] = TABLE, together: int = 1 << 16) -> LookupOperator:
    operator = LookupOperator(node, together)
    names = node.table.schema.arrow
    columns = [[row[i] for row in table] for i in range(len(names))]
    operator.fill(pa.RecordBatch.from_pydict(dict(zip(names.names, columns, strict=True)), names))
    return operator


def batch_of(node: Lookup, rows: list[Any] = ROWS, **beside: Any) -> Batch:
    schema = node.input.schema.arrow
    columns = [[row[i] for row in rows] for i in range(len(schema))]
    made = pa.RecordBatch.from_pydict(dict(zip(schema.names, columns, strict=True)), schema)
    return Batch(made, **beside)


def rows_of(items: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for each in items for row in each.rows.to_pylist()]


INNER = [
    *[("a", 1, "a", 10), ("a", 1, "a", 30)],
    ("b", 3, "b", 20),
    *[("a", 4, "a", 10), ("a", 4, "a", 30)],
]
LEFT = [*INNER[:2], (None, 2, None, None), *INNER[2:], ("c", 5, None, None)]
KINDS = {
    "JOIN r ON s.k = r.k": INNER,
    "LEFT JOIN r ON s.k = r.k": LEFT,
    "SEMI JOIN r ON s.k = r.k": [("a", 1), ("b", 3), ("a", 4)],
    "ANTI JOIN r ON s.k = r.k": [(None, 2), ("c", 5)],
}


@pytest.mark.parametrize("together", [1, 2, 3, 1000])
@pytest.mark.parametrize("join", KINDS)
def test_results_come_in_the_order_of_tuples_in_pieces(join: str, together: int) -> None:
    node = node_of(join, "s.k" if "SEMI" in join or "ANTI" in join else "s.k, r.v")
    items = filled(node, together=together).on_batch(0, batch_of(node))
    assert rows_of(items) == KINDS[join]
    if "LEFT" not in join:
        assert all(each.num_rows <= max(together, len(ROWS)) for each in items)


def test_a_tuple_with_many_partners_comes_in_pieces() -> None:
    node = node_of("LEFT JOIN r ON s.t < r.v")
    items = filled(node, together=3).on_batch(0, batch_of(node, [("z", 0)]))
    assert [each.num_rows for each in items] == [3, 1]
    (alone,) = filled(node, together=3).on_batch(0, batch_of(node, [("z", 99)]))
    assert alone.rows.to_pylist() == [{"s.k": "z", "s.t": 99, "r.k": None, "r.v": None}]


@pytest.mark.parametrize("join", KINDS)
def test_an_empty_table(join: str) -> None:
    node = node_of(join, "s.k")
    items = filled(node, []).on_batch(0, batch_of(node))
    if "LEFT" in join:
        assert rows_of(items) == [(*row, None, None) for row in ROWS]
    else:
        assert rows_of(items) == (ROWS if "ANTI" in join else [])


@pytest.mark.parametrize("join", KINDS)
def test_what_stands_beside_rows_stays_beside_them(join: str) -> None:
    node = node_of(join, "s.k")
    signs = np.array([1, -1, 1, -1, 1], np.int8)
    broken = {"s.t": pa.array([None, 7, None, 8, 9], pa.int64())}
    places = np.arange(5)
    batch = batch_of(node, signs=signs, broken=broken, places=places)
    for item in filled(node).on_batch(0, batch):
        assert isinstance(item, Batch)
        assert item.signs is not None
        assert item.places is not None
        assert item.broken is not None
        own = [place - 1 for place in item.rows.column("s.t").to_pylist()]
        assert item.places.tolist() == own
        assert item.signs.tolist() == signs[own].tolist()
        assert item.broken["s.t"].to_pylist() == [broken["s.t"][place].as_py() for place in own]


def test_progress_passes() -> None:
    joint = JointPunctuation(("s.t", "s.u"), (3, 4))
    progress = Progress({"s.t": 7}, {"s.t": 9}, joint=(joint,))
    node = node_of("JOIN r ON s.k = r.k")
    assert filled(node).on_progress(0, progress) == [progress]


def test_it_keeps_nothing_of_tuples() -> None:
    node = node_of("LEFT JOIN r ON s.k = r.k")
    operator, store = filled(node), MemoryStore()
    operator.on_batch(0, batch_of(node))
    operator.save(store)
    assert list(store.names()) == []
    assert operator.rows_held() == len(TABLE)
    assert operator.metrics().bytes > 0


def test_a_table_that_was_never_read_is_not_an_empty_one() -> None:
    node = node_of("LEFT JOIN r ON s.k = r.k")
    with pytest.raises(EngineError, match="nobody has read"):
        LookupOperator(node).on_batch(0, batch_of(node))


@settings(deadline=None, max_examples=60)
@given(
    join=st.sampled_from(["", "LEFT ", "SEMI ", "ANTI "]),
    on=st.sampled_from(["s.k = r.k", "s.k = r.k AND s.t < r.v", "s.t < r.v", "TRUE", "s.t = r.v"]),
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 4)), max_size=8),
    table=st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([None, 1, 3])), max_size=6
    ),
    together=st.sampled_from([1, 2, 5, 1000]),
)
def test_the_size_of_pieces_makes_no_difference(
    join: str, on: str, rows: list[Any], table: list[Any], together: int
) -> None:
    node = node_of(f"{join}JOIN r ON {on}", "s.k")
    whole = filled(node, table).on_batch(0, batch_of(node, rows))
    pieces = filled(node, table, together).on_batch(0, batch_of(node, rows))
    assert rows_of(pieces) == rows_of(whole)
