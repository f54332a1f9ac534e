"""Iterators on Spark, and what a query remembers of a run there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"


def rows() -> Iterator[dict[str, Any]]:
    yield from ({"t": t} for t in (1, 25, "x", 3, 40))


def asked(spark: SparkSession, data: object, *texts: str) -> tuple[ps.Database, list[ps.Query]]:
    db = ps.connect(spark)
    db.stream("s", data, schema="t INT", progress=ps.progress("t", ordered=True))
    queries = [db.sql(text) for text in texts]
    assert all(isinstance(query, ps.Query) for query in queries)
    return db, queries  # type: ignore[return-value]


def test_queries_of_one_pass_share_an_iterator(spark: SparkSession) -> None:
    db, queries = asked(spark, rows(), COUNT + " LATE SIDE", "SELECT t FROM s")
    found: list[list[Any]] = [[], []]
    db.run(queries, [each.append for each in found], rows=True)
    assert [row["n"] for row in found[0]] == [1, 1, 1]
    assert [row["t"] for row in found[1]] == [1, 25, 3, 40]
    assert [query.account.rejected for query in queries] == [1, 1]
    assert queries[0].late.column("t").to_pylist() == [3]
    with pytest.raises(ps.SourceError, match="stream s has been read already"):
        queries[0].collect()


@pytest.mark.parametrize("way", ["run", "collect"])
def test_what_is_remembered_and_said(
    spark: SparkSession, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, (query,) = asked(spark, rows(), COUNT)
    query.run(lambda batch: None) if way == "run" else query.collect()
    assert (query.account.read, query.account.late, query.account.rejected) == (5, 1, 1)
    assert query.rejected.column("row").to_pylist() == [3]
    (said,) = (each.getMessage() for each in caplog.records if each.name == "penstock")
    assert said == (
        "1 of 5 rows were rejected (they are in query.rejected):\n"
        "  stream s: row 3, column t: the str 'x' is not an INT"
    )
    with pytest.raises(ps.RunError, match="the late tuples were counted and not kept"):
        query.late  # noqa: B018
