"""Streams that can be read once: who shares a reading, and who is told that there is no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"
UNION = "(SELECT t FROM s UNION ALL SELECT t + 5 AS t FROM s)"
ENGINES = ["local", "reference"]
SIZES = {"local": 10_000, "reference": 1_000}  # more than a batch, where there are batches


def generate(count: int = 10_000) -> Iterator[dict[str, int]]:
    for n in range(count):
        yield {"t": n // 100 + (3 if n % 7 == 0 else 0)}


def both(engine: str) -> tuple[Iterator[dict[str, int]], list[dict[str, int]]]:
    return generate(SIZES[engine]), list(generate(SIZES[engine]))


def database(data: object, engine: str = "local") -> ps.Database:
    db = ps.connect(engine)
    db.stream("s", data, schema="t BIGINT", progress=ps.progress("t", delay=1))
    return db


def ask(db: ps.Database, sql: str = COUNT) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("engine", ENGINES)
def test_all_that_an_answer_offers_comes_from_one_reading(engine: str) -> None:
    query = ask(database(generate(SIZES[engine]), engine), COUNT + " LATE SIDE")
    query.explain()
    known = ask(database(list(generate(SIZES[engine])), engine), COUNT + " LATE SIDE")
    assert query.collect() == known.collect()
    assert query.late == known.late
    assert query.late.num_rows > 0
    assert query.rejected.num_rows == 0
    assert query.account == known.account
    assert list(query) == known.collect().to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
def test_another_query_is_told(engine: str) -> None:
    db = database(generate(SIZES[engine]), engine)
    ask(db).collect()
    with pytest.raises(ps.SourceError, match="stream s has been read already"):
        ask(db).collect()


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_of_one_pass_share_the_reading(engine: str) -> None:
    db = database(generate(SIZES[engine]), engine)
    found: list[list[Any]] = [[], []]
    queries = [ask(db), ask(db, "SELECT max(t) AS last [RANGE 50, SLIDE 50, WA t] FROM s")]
    accounts = db.run(queries, [each.append for each in found], rows=True)
    assert [account.read for account in accounts] == [SIZES[engine]] * 2
    known = database(list(generate(SIZES[engine])), engine)
    for query, rows in zip(queries, found, strict=True):
        assert rows == ask(known, query.text).collect().to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT count(*) AS n, sum(t) AS s [RANGE 20, SLIDE 10, WA t] FROM {UNION} LATE SIDE",
        f"SELECT t, count(*) AS n FROM {UNION} GROUP BY t LATE SIDE",
        f"SELECT t FROM {UNION}",
    ],
)
def test_a_query_that_scans_twice_shares_the_reading(sql: str, engine: str) -> None:
    query, known = (ask(database(data, engine), sql) for data in both(engine))

    def rows(query: ps.Query) -> list[Any]:
        return sorted(tuple(row.values()) for row in query.collect().to_pylist())

    assert rows(query) == rows(known)
    assert sorted(map(str, query.late.to_pylist())) == sorted(map(str, known.late.to_pylist()))


@pytest.mark.parametrize(
    "data", [generate, generate(), list(generate())], ids=["function", "generator", "list"]
)
def test_windows_that_count_rows_over_a_stream_that_is_scanned_twice(data: Any) -> None:
    """All rows of one branch come before those of the other, or the query is refused."""
    sql = f"SELECT count(*) AS n, max(t) AS m [RANGE 3000 ROWS, SLIDE 3000 ROWS] FROM {UNION}"
    expected = ask(database(list(generate()), "reference"), sql).collect()
    query = ask(database(data), sql)
    if isinstance(data, Iterator):
        with pytest.raises(
            ps.EngineError, match=r"counts the rows of stream s .* several branches"
        ):
            query.collect()
    else:
        assert query.collect() == expected


def test_a_window_that_counts_rows_below_a_union() -> None:
    below = "SELECT count(*) AS n, max(t) AS m [RANGE 300 ROWS, SLIDE 300 ROWS] FROM s"
    sql = f"SELECT n, m FROM ({below}) UNION ALL SELECT n, m FROM ({below})"
    rows, known = (ask(database(data), sql).collect() for data in (generate(), list(generate())))
    order = [("n", "ascending"), ("m", "ascending")]
    assert rows.sort_by(order) == known.sort_by(order)


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_rows_of_a_shared_reading(engine: str) -> None:
    data = [{"t": 1}, {"t": "x"}, {"t": None}]
    db = database(iter(data), engine)
    queries = [ask(db), ask(db, "SELECT t FROM s")]
    accounts = db.run(queries, [lambda row: None] * 2)
    assert [(each.read, each.rejected) for each in accounts] == [(3, 2), (3, 2)]
