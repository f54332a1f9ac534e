"""SPLIT: a tuple goes to the first part whose condition is true, and the stream is read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

SPLIT = "SPLIT s INTO hot WHERE c > 30, odd WHERE c % 2 = 1, rest OTHERWISE"


def answer(db: ps.Database, name: str) -> list[Any]:
    query = db.sql(f"SELECT * FROM {name}")
    assert isinstance(query, ps.Query)
    rows: list[Any] = [row["c"] for row in query.collect().to_pylist()]
    return rows


@settings(deadline=None, max_examples=40)
@given(
    values=st.lists(st.none() | st.integers(-40, 40), max_size=12),
    engine=st.sampled_from(["local", "reference"]),
)
def test_the_first_condition_that_is_true(values: list[int | None], engine: str) -> None:
    db = ps.connect(engine)
    db.stream("s", [(value,) for value in values], schema="c INT")
    db.sql(SPLIT)
    known = [value for value in values if value is not None]
    hot = [value for value in known if value > 30]
    odd = [value for value in known if value <= 30 and value % 2 == 1 and value > 0]
    assert answer(db, "hot") == hot
    assert answer(db, "odd") == odd
    rest = [value for value in values if value not in {*hot, *odd}]
    assert answer(db, "rest") == rest


def test_parts_are_relations_of_later_queries() -> None:
    db = ps.connect("reference")
    db.sql("""
        CREATE STREAM s (k STRING, c INT, t INT)
          FROM VALUES ('a', 50, 1), ('a', -5, 2), ('b', 40, 3), ('b', 7, 4)
          PROGRESS ON t DELAY 5;
        SPLIT s INTO hot WHERE c > 30, cold WHERE c < 0;
        SPLIT hot INTO very_hot WHERE c > 45""")
    assert db.queries == ["hot", "cold", "very_hot"]
    joined = db.sql("SELECT h.t, c.t FROM hot h JOIN cold c ON h.k = c.k AND c.t = h.t + 1")
    assert isinstance(joined, ps.Query)
    assert joined.collect().to_pylist() == [{"h.t": 1, "c.t": 2}]
    windows = db.sql("SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM very_hot AS v")
    assert isinstance(windows, ps.Query)
    assert windows.collect()["n"].to_pylist() == [1]


def test_the_stream_is_read_once() -> None:
    """An iterator has nothing to give to a second reader."""

    def rows() -> Iterator[dict[str, int]]:
        yield from ({"c": value} for value in (50, 3, 4))

    db = ps.connect("local")
    db.stream("s", rows(), schema="c INT")
    db.sql(SPLIT)
    found: dict[str, list[Any]] = {"hot": [], "odd": [], "rest": []}
    queries = [db.query(name) for name in found]
    accounts = db.run(queries, [each.append for each in found.values()], rows=True)
    assert {name: [row["c"] for row in rows_] for name, rows_ in found.items()} == {
        "hot": [50],
        "odd": [3],
        "rest": [4],
    }
    assert [account.read for account in accounts] == [3, 3, 3]


def test_one_query_over_several_parts_of_what_can_be_read_once() -> None:
    db = ps.connect("local")
    db.stream("s", iter([{"c": 50}, {"c": 3}, {"c": 4}]))
    query = db.sql(f"{SPLIT}; SELECT c FROM hot UNION ALL SELECT c FROM rest")
    assert isinstance(query, ps.Query)
    assert sorted(query.collect()["c"].to_pylist()) == [4, 50]
    assert query.account.read == 3


def test_a_table_is_split_into_tables() -> None:
    db = ps.connect("local")
    db.stream("s", [{"k": 1}, {"k": 2}])
    db.table("t", [{"k": 1, "v": 1}, {"k": 2, "v": 20}])
    query = db.sql(
        "SPLIT t INTO large WHERE v > 5, small OTHERWISE; "
        "SELECT s.k, v FROM s LEFT JOIN large ON s.k = large.k"
    )
    assert isinstance(query, ps.Query)
    assert query.collect()["v"].to_pylist() == [None, 20]


def test_latent_times_are_filled_in() -> None:
    db = ps.connect("local")
    db.stream("s", [{"c": 50}, {"c": 1}], progress=ps.progress("ts", timestamps="LATENT"))
    query = db.sql("SPLIT s INTO hot WHERE c > 30; SELECT c, ts IS NULL AS n FROM hot")
    assert isinstance(query, ps.Query)
    assert query.collect().to_pylist() == [{"c": 50, "n": False}]


def test_nothing_is_made_if_one_part_is_wrong() -> None:
    db = ps.connect()
    db.stream("s", [{"c": 1}])
    for sql in (
        "SPLIT s INTO a WHERE c > 1, s OTHERWISE",
        "SPLIT s INTO a WHERE c > 1, b WHERE d > 1",
        "SPLIT s INTO a WHERE c > 1, A OTHERWISE",
        "SPLIT s INTO a OTHERWISE, b WHERE c > 1",
    ):
        with pytest.raises(ps.BindError):
            db.sql(sql)
    assert db.queries == []
