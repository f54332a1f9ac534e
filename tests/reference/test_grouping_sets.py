"""GROUPING SETS, ROLLUP and CUBE agree with DuckDB, with NULLs among the keys."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.local.helpers import assert_same
from tests.reference.helpers import Row, Stream, ask, bag, tuples

SCHEMA = "a STRING, b INT, v INT, t INT"
GROUPINGS = (
    "ROLLUP (a, b)",
    "CUBE (a, b)",
    "GROUPING SETS ((a, b), (a), ())",
    "GROUPING SETS ((b), (b), ROLLUP (a))",
    "a, ROLLUP (b)",
    "ROLLUP ((a, b))",
    "CUBE (a, b), b",
)
CALLS = "grouping(a) AS ga, grouping(b, a) AS gb, sum(v) AS total, count(*) AS n, max(v) AS most"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", None]),
        st.sampled_from([1, 2, None]),
        st.sampled_from([None, -3, 0, 4]),
        st.integers(-20, 20),
    ),
    min_size=1,
    max_size=12,
)


def in_duckdb(sql: str, rows: list[Row]) -> list[Row]:
    types = [pa.string(), pa.int32(), pa.int32(), pa.int32()]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(each, of) for each, of in zip(columns, types, strict=True)]
    connection = duckdb.connect(config={"threads": 1})
    connection.register("s", pa.table(arrays, ["a", "b", "v", "t"]))
    found = connection.sql(sql).fetchall()
    return bag(tuple(None if each is None else each for each in row) for row in found)


@settings(deadline=None, max_examples=40)
@given(rows=ROWS, grouping=st.sampled_from(GROUPINGS), cut=st.sampled_from([1, 5, None]))
def test_windows_and_running_answers_agree_with_duckdb(
    rows: list[Row], grouping: str, cut: int | None
) -> None:
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=100))
    select = f"SELECT a, b, {CALLS}"
    running = f"{select} FROM s GROUP BY {grouping} EMIT CHANGES"
    expected = in_duckdb(f"{select} FROM s GROUP BY {grouping}", rows)
    assert bag(tuples(ask(running, s=stream).collect())) == expected
    assert_same(running, (cut,), s=stream)
    windows = f"SELECT window_start / 8 AS w, a, b, {CALLS} [RANGE 8, SLIDE 8, WA t] FROM s"
    in_windows = f"SELECT floor(t / 8)::DOUBLE AS w, a, b, {CALLS} FROM s GROUP BY floor(t / 8),"
    found = bag(tuples(ask(f"{windows} GROUP BY {grouping}", s=stream).collect()))
    assert found == in_duckdb(f"{in_windows} {grouping}", rows)
    assert_same(f"{windows} GROUP BY {grouping}", (cut,), s=stream)


def test_the_spelling_behind_the_keys() -> None:
    rows = [("x", 1, 2, 3), ("x", 2, 4, 3), ("y", None, 8, 4)]
    stream = Stream(SCHEMA, rows)
    select = "SELECT a, b, sum(v) AS total FROM s GROUP BY"
    for word in ("ROLLUP", "CUBE"):
        behind = ask(f"{select} a, b WITH {word} EMIT CHANGES", s=stream).collect()
        before = ask(f"{select} {word} (a, b) EMIT CHANGES", s=stream).collect()
        assert bag(tuples(behind)) == bag(tuples(before))


def test_one_set_has_nothing_rolled_up() -> None:
    stream = Stream(SCHEMA, [("x", 1, 2, 3)])
    found = ask("SELECT a, grouping(a) AS g FROM s GROUP BY a EMIT CHANGES", s=stream).collect()
    assert tuples(found) == [("x", 0)]


@pytest.mark.parametrize(
    ("grouping", "message"),
    [
        ("CUBE (a, b, v, t, a + 1, b + 1, v + 1, t + 1)", "up to 128 sets"),
        ("a WITH b", "expected ROLLUP or CUBE"),
        ("ROLLUP a", "expected \\( before the keys"),
    ],
)
def test_what_is_refused(grouping: str, message: str) -> None:
    with pytest.raises(ps.PenstockError, match=message):
        ask(f"SELECT count(*) FROM s GROUP BY {grouping} EMIT CHANGES", s=Stream(SCHEMA, []))
