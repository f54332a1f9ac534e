"""Rows that no filter is kept from, compared with the filters themselves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.filter_sets import ManyFilters
from penstock.kernel.stateless import FilterOperator
from penstock.plan.nodes.node import Filter
from tests.kernel.test_filter_cells import LEAF, ROW

TYPES = (pa.int64(), pa.float64(), pa.string())
CONDITION = st.one_of(LEAF, st.lists(LEAF, min_size=2, max_size=3).map(" AND ".join))


def filters_of(conditions: list[str]) -> list[FilterOperator]:
    db = ps.connect()
    db.stream(
        "s", [{"x": 1, "y": 1.0, "z": "a"}], schema={"x": "BIGINT", "y": "DOUBLE", "z": "STRING"}
    )
    found = []
    for each in conditions:
        query = db.sql(f"SELECT x FROM s WHERE {each}")
        assert isinstance(query, ps.Query)
        (node,) = (node for node in query.plan.walk() if isinstance(node, Filter))
        found.append(FilterOperator(node))
    return found


@settings(deadline=None, max_examples=200)
@given(conditions=st.lists(CONDITION, min_size=1, max_size=6), rows=st.lists(ROW, max_size=9))
def test_no_row_is_kept_from_a_filter_that_lets_it_pass(
    conditions: list[str], rows: list[tuple[object, ...]]
) -> None:
    saying = [each for each in filters_of(conditions) if each.needed is not None]
    if not saying:
        return
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(each, type_) for each, type_ in zip(columns, TYPES, strict=True)]
    batch = pa.record_batch(arrays, saying[0].schema.arrow.names)
    needed = [each.needed for each in saying if each.needed is not None]
    chosen = dict(ManyFilters(needed, saying[0].schema).choose(batch))
    for place, filter_ in enumerate(saying):
        expected = filter_.on_batch(0, Batch(batch))
        if place not in chosen:
            assert not expected
            continue
        some = chosen[place]
        given_rows = batch if some is None else batch.take(pa.array(some))
        found = filter_.on_batch(0, Batch(given_rows))
        # the same rows, in the same order; NaN is equal to nothing, so they are compared as text
        assert [str(each.rows.to_pylist()) for each in found] == [  # type: ignore[union-attr]
            str(each.rows.to_pylist())
            for each in expected  # type: ignore[union-attr]
        ]


def test_rows_that_lie_elsewhere_come_to_nobody() -> None:
    filters = filters_of([f"x = {number}" for number in range(100)] + ["z = 'a' AND x > 3"])
    batch = pa.record_batch(
        [pa.array([7, 500, 7]), pa.array([0.5, 0.5, 0.5]), pa.array(["a", "c", "b"])],
        filters[0].schema.arrow.names,
    )
    needed = [each.needed for each in filters if each.needed is not None]
    chosen = dict(ManyFilters(needed, filters[0].schema).choose(batch))
    assert {place: np.asarray(rows).tolist() for place, rows in chosen.items()} == {
        7: [0, 2],
        100: [0],
    }
