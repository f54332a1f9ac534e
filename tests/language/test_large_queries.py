"""Queries of a megabyte and deep nests: an answer or a clear refusal, soon, and never a crash.

Budgets are in CPU time, so that a busy machine does not fail them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import penstock as ps
from penstock.errors import Span

MEGABYTE = 1_000_000


@pytest.fixture
def database() -> Iterator[ps.Database]:
    started = time.process_time()
    made = ps.connect("reference")
    made.sql("CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) PROGRESS ON ts ORDERED")
    yield made
    assert time.process_time() - started < 60


def refused(database: ps.Database, sql: str) -> ps.PenstockError:
    with pytest.raises(ps.PenstockError) as caught:
        database.sql(sql)
    assert len(str(caught.value)) < 1000
    return caught.value


def test_nested_parentheses(database: ps.Database) -> None:
    assert database.sql("SELECT " + "(" * 30 + "v" + ")" * 30 + " FROM s") is not None
    error = refused(database, "SELECT " + "(" * 31 + "v" + ")" * 31 + " FROM s")
    assert error.message == "parentheses are nested more than 30 deep"
    assert error.span == Span(37, 38)


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [
        ("upper(", "k", ")"),
        ("CAST(", "v", " AS BIGINT)"),
        ("CASE WHEN v = 1 THEN 1 ELSE ", "2", " END"),
        ("-(v + ", "1", ")"),
        ("coalesce(v, ", "1", ")"),
    ],
)
def test_nested_expressions(database: ps.Database, opening: str, inner: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return f"SELECT {opening * depth}{inner}{closing * depth} FROM s"

    assert database.sql(nested(30)) is not None
    assert "nested more than 30 deep" in refused(database, nested(1000)).message


def test_nested_sub_queries(database: ps.Database) -> None:
    sql = "SELECT v FROM " + "(SELECT v FROM " * 30 + "s" + ") AS q" * 30
    query = database.sql(sql)
    assert isinstance(query, ps.Query)
    assert query.explain().count("Project") == 31


@pytest.mark.parametrize("word", ["NOT ", "- ", "~ ", "CASE ", "["])
def test_a_word_again_and_again(database: ps.Database, word: str) -> None:
    assert isinstance(refused(database, "SELECT " + word * 20_000 + "v FROM s"), ps.ParseError)


def test_a_megabyte_of_parentheses(database: ps.Database) -> None:
    error = refused(database, "SELECT " + "(" * MEGABYTE)
    assert error.message == "parentheses are nested more than 30 deep"


def test_a_list_of_a_megabyte(database: ps.Database) -> None:
    values = ", ".join(str(number) for number in range(MEGABYTE // 8))
    query = database.sql(f"SELECT v FROM s WHERE v IN ({values})")
    assert isinstance(query, ps.Query)
    assert f"{MEGABYTE // 8 - 1}))" in query.explain()


@pytest.mark.slow
@pytest.mark.parametrize(("word", "operator"), [("AND", "<>"), ("OR", "=")])
def test_a_chain_of_a_megabyte(database: ps.Database, word: str, operator: str) -> None:
    parts = f" {word} ".join(f"v {operator} {number}" for number in range(MEGABYTE // 14))
    query = database.sql(f"SELECT v FROM s WHERE {parts}")
    assert isinstance(query, ps.Query)
    assert query.explain().count(f" {word} ") == MEGABYTE // 14 - 1


def test_a_chain_of_operators(database: ps.Database) -> None:
    assert database.sql("SELECT v" + " + v" * 200 + " FROM s") is not None
    error = refused(database, "SELECT v" + " + v" * 201 + " FROM s")
    assert (error.message, error.expected) == ("201 operators in a row", "up to 200")


@pytest.mark.slow
def test_a_sum_of_a_megabyte(database: ps.Database) -> None:
    error = refused(database, "SELECT v" + "+v" * (MEGABYTE // 2) + " FROM s")
    assert error.message == "500000 operators in a row"


def test_a_text_of_a_megabyte(database: ps.Database) -> None:
    query = database.sql(f"SELECT '{'x' * MEGABYTE}' AS text FROM s")
    assert isinstance(query, ps.Query)


def test_more_than_four_megabytes(database: ps.Database) -> None:
    error = refused(database, "SELECT v FROM s" + " " * 4 * MEGABYTE)
    assert error.message == "the text has 4,000,015 characters"


def test_many_columns(database: ps.Database) -> None:
    columns = ", ".join(f"v + {number} AS c{number}" for number in range(5_000))
    query = database.sql(f"SELECT {columns} FROM s")
    assert isinstance(query, ps.Query)
    assert query.schema.names[-1] == "c4999"


def test_many_columns_of_one_name(database: ps.Database) -> None:
    started = time.process_time()
    query = database.sql("SELECT " + "v, " * 1200 + "v FROM s")
    assert isinstance(query, ps.Query)
    assert query.schema.names[-1] == "v_1201"
    assert time.process_time() - started < 1


def test_queries_on_queries_on_queries(database: ps.Database) -> None:
    """Each is small; together they would be deeper than Python's stack."""
    database.sql("CREATE QUERY q0 AS SELECT v, ts FROM s")
    for number in range(1, 40):
        database.sql(f"CREATE QUERY q{number} AS SELECT v, ts FROM q{number - 1}")
    assert database.query("q39").explain().count("Project") == 40
    with pytest.raises(ps.BindError, match="the query stands on a pile of"):
        pile_up(database)


def pile_up(database: ps.Database) -> None:
    for number in range(40, 250):
        database.sql(f"CREATE QUERY q{number} AS SELECT v, ts FROM q{number - 1}")
