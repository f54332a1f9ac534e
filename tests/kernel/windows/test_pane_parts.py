"""Ranges of cells, against sums of the cells in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.grouping.folding import Folder, Rows
from penstock.kernel.windows.pane_parts import merged_ranges
from penstock.plan.nodes.aggregation import WindowAggregate

CALLS = "count(*) AS n, sum(x) AS s, max(x) AS m, first(x) AS f, avg(x) AS a"


def folder_and_rows(values: list[int], codes: list[int]) -> tuple[Folder, Rows]:
    db = ps.connect()
    db.stream("s", [{"x": 1, "t": 1}], progress=ps.progress("t", delay=5))
    query = db.sql(f"SELECT {CALLS} [RANGE 5, SLIDE 5, WA t] FROM s")
    assert isinstance(query, ps.Query)
    aggregate = next(each for each in query.plan.walk() if isinstance(each, WindowAggregate))
    folder = Folder((), aggregate.aggregates, aggregate.input.schema)
    batch = pa.record_batch({"x": pa.array(values, pa.int64()), "t": pa.array(values, pa.int64())})
    rows = folder.rows(batch, np.array(values, np.int64))
    return folder, Rows(np.array(codes, np.int64), rows.positions, rows.arguments)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), cells=st.integers(1, 19), groups=st.integers(1, 3))
def test_a_range_is_its_cells(data: st.DataObject, cells: int, groups: int) -> None:
    codes = data.draw(st.lists(st.integers(0, cells * groups - 1), min_size=1, max_size=40))
    values = data.draw(st.lists(st.integers(-9, 9), min_size=len(codes), max_size=len(codes)))
    ends = st.tuples(st.integers(0, cells - 1), st.integers(0, cells - 1))
    ranges = [(min(each), max(each)) for each in data.draw(st.lists(ends, min_size=1, max_size=8))]
    folder, rows = folder_and_rows(values, codes)
    merged = merged_ranges(folder, folder.folded(rows, cells * groups), groups, np.array(ranges))
    for number, (first, last) in enumerate(ranges):
        for group in range(groups):
            inside = [
                place
                for place, code in enumerate(codes)
                if code % groups == group and first <= code // groups <= last
            ]
            own = rows.take(np.array(inside, np.int64))
            own = Rows(np.zeros(len(inside), np.int64), own.positions, own.arguments)
            expected = folder.results(folder.folded(own, 1), np.zeros(1, np.int64))
            assert folder.results(merged, np.array([number * groups + group])) == expected
