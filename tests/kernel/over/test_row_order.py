"""The first row of every partition: what is written down row by row is what the table finds."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-4, 4), st.one_of(st.none(), st.integers(0, 2))),
    max_size=40,
)
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
SQL = (
    "SELECT k, t, v FROM s"
    " QUALIFY row_number() OVER (PARTITION BY k ORDER BY t, v DESC NULLS LAST) = 1"
)


@given(ROWS, st.integers(1, 41))
def test_the_first_by_the_whole_order_comes_whatever_the_cut(
    rows: list[tuple[int, int, int | None]], cut: int
) -> None:
    columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(3)]
    whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    batches = [whole.slice(at, cut) for at in range(0, len(rows), cut)]
    db = ps.connect()
    db.stream("s", batches, schema=SCHEMA, progress=ps.progress("t", delay=8))
    found = db.sql(SQL).collect()
    expected: dict[int, tuple[int, int, int | None]] = {}
    for row in sorted(rows, key=lambda row: (row[1], -1 if row[2] is None else -2 - row[2])):
        expected.setdefault(row[0], row)
    assert found.num_rows == len(expected)
    assert {tuple(row.values()) for row in found.to_pylist()} == set(expected.values())
