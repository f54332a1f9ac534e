"""Queries of a megabyte and deep nests: an answer or a clear refusal, soon, and never a crash.

Budgets are in CPU time, so that a busy machine does not fail them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import penstock as ps
from penstock.errors import Span
from tests.counting import calls_of

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


def test_many_parentheses(database: ps.Database) -> None:
    error = refused(database, "SELECT " + "(" * 200_000)
    assert error.message == "parentheses are nested more than 30 deep"


@pytest.mark.parametrize("word", ["+", "(", "v,", ";", "1 ", "''", "a.", "é "])
def test_a_megabyte_of_the_same(database: ps.Database, word: str) -> None:
    """It is refused before its parts are looked at."""
    started = time.process_time()
    error = refused(database, "SELECT " + word * MEGABYTE)
    assert error.message == "the text has more than 400,000 names, values and signs"
    assert time.process_time() - started < 1


def test_words_in_texts_and_comments_do_not_count(database: ps.Database) -> None:
    text = "a, b + c; " * (MEGABYTE // 10)
    query = database.sql(f"SELECT /* {text} */ '{text}' AS x FROM s -- {text}")
    assert isinstance(query, ps.Query)


@pytest.mark.parametrize("opened", ["'", '"', "`", "/*"])
def test_a_megabyte_that_is_not_closed(database: ps.Database, opened: str) -> None:
    error = refused(database, f"SELECT {opened}" + "a, " * (MEGABYTE // 3))
    assert "is not terminated" in error.message


def test_a_long_list(database: ps.Database) -> None:
    values = ", ".join(str(number) for number in range(30_000))
    query = database.sql(f"SELECT v FROM s WHERE v IN ({values})")
    assert isinstance(query, ps.Query)
    assert "29999))" in query.explain()


def test_many_rows(database: ps.Database) -> None:
    rows = ", ".join(f"({number}, 'abc', {number}.25)" for number in range(10_000))
    database.sql(f"CREATE STREAM w (a INT, b STRING, c DOUBLE) FROM VALUES {rows}")
    query = database.sql("SELECT * FROM w")
    assert isinstance(query, ps.Query)
    assert query.explain().count("VALUES (10000 rows)") == 1


def test_rows_are_read_by_column(database: ps.Database) -> None:
    """A value takes some calls to be parsed, and hardly any to be converted."""
    rows = ", ".join(f"({number}, '{number}', '2026-01-31 12:00')" for number in range(500))
    create = "CREATE STREAM w{0} (a BIGINT, b INT, c TIMESTAMP) FROM VALUES {1}"
    database.sql(create.format(1, rows))
    assert calls_of(lambda: database.sql(create.format(2, rows))) < 100 * 1500


@pytest.mark.slow
@pytest.mark.parametrize(("word", "operator"), [("AND", "<>"), ("OR", "=")])
def test_a_chain_of_conditions(database: ps.Database, word: str, operator: str) -> None:
    parts = f" {word} ".join(f"v {operator} {number}" for number in range(20_000))
    query = database.sql(f"SELECT v FROM s WHERE {parts}")
    assert isinstance(query, ps.Query)
    assert query.explain().count(f" {word} ") == 19_999


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_a_long_chain(database: ps.Database, word: str) -> None:
    parts = f" {word} ".join(f"v = {number}" for number in range(25_000))
    error = refused(database, f"SELECT v FROM s WHERE {parts}")
    assert error.message == "there are 24,999 conditions"
    assert error.hint == "IN (…) takes a long list of values"


def test_a_case_of_many_branches(database: ps.Database) -> None:
    branches = " ".join(f"WHEN v = {number} THEN {number}" for number in range(30_000))
    error = refused(database, f"SELECT CASE {branches} END AS x FROM s")
    assert error.message == "there are 30,000 conditions"


def test_many_joins(database: ps.Database) -> None:
    joins = " ".join(
        f"JOIN s AS s{number} [RANGE 1 MINUTE, WA ts] ON s0.v = s{number}.v"
        for number in range(1, 3000)
    )
    error = refused(database, f"SELECT s0.v FROM s AS s0 [RANGE 1 MINUTE, WA ts] {joins}")
    assert error.message == "3,000 relations are joined"


def test_many_unions(database: ps.Database) -> None:
    query = database.sql(" UNION ALL ".join(["SELECT v, ts FROM s"] * 1000))
    assert isinstance(query, ps.Query)
    error = refused(database, " UNION ALL ".join(["SELECT v, ts FROM s"] * 6_000))
    assert error.message == "there are 5,999 UNIONs"


@pytest.mark.parametrize("to", ["BIGINT", "DECIMAL(10, 2)"])
def test_casts_of_casts(database: ps.Database, to: str) -> None:
    assert database.sql("SELECT v" + f"::{to}" * 200 + " AS x FROM s") is not None
    error = refused(database, "SELECT v" + f"::{to}" * 10_000 + " AS x FROM s")
    assert error.message == "there are more than 200 casts in a row"


# --- what grows with the number of columns, and not with its square ------------------------------


def _wide(columns: int) -> str:
    return ", ".join(f"c{number} INT" for number in range(columns))


@pytest.mark.parametrize(
    "statements",
    [
        lambda n: f"CREATE STREAM w{n} ({_wide(n)})",
        lambda n: (
            f"CREATE STREAM x{n} ({_wide(n)}); SELECT "
            + ", ".join(f"c{number}" for number in range(n))
            + f" FROM x{n} WHERE c{n - 1} > 1"
        ),
        lambda n: "SELECT " + ", ".join(f"CAST(v AS BIGINT) AS c{i}" for i in range(n)) + " FROM s",
        lambda n: (
            "SELECT "
            + ", ".join(f"sum(v + {number}) AS c{number}" for number in range(n))
            + " [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s"
        ),
        lambda n: (
            "SELECT count(*) AS n [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s GROUP BY "
            + ", ".join(f"v + {number}" for number in range(n))
        ),
    ],
    ids=["create", "select", "casts", "aggregates", "keys"],
)
def test_columns_cost_the_same_each(
    database: ps.Database, statements: Callable[[int], str]
) -> None:
    calls_of(lambda: database.sql(statements(10)))  # whatever is made once
    few, many = (calls_of(lambda n=n: database.sql(statements(n))) for n in (200, 800))
    assert many < 6 * few


def test_an_unknown_name_among_many(database: ps.Database) -> None:
    database.sql(f"CREATE STREAM w ({_wide(5000)})")
    assert refused(database, "SELECT c99999 FROM w").message == "unknown column 'c99999'"


@pytest.mark.parametrize("sql", ["SELECT {} FROM s", "SELECT v FROM {}", "SELECT {}(v) FROM s"])
def test_long_names(database: ps.Database, sql: str) -> None:
    refused(database, sql.format("x" * MEGABYTE))


def test_a_chain_of_operators(database: ps.Database) -> None:
    assert database.sql("SELECT v" + " + v" * 200 + " FROM s") is not None
    error = refused(database, "SELECT v" + " + v" * 201 + " FROM s")
    assert (error.message, error.expected) == ("201 operators in a row", "up to 200")


@pytest.mark.parametrize(
    "operator",
    ["= v", "< v", "IS NULL", "IN (1)", "LIKE v", "BETWEEN 1 AND 2", "-> 'a'", "& v", "* (v)"],
)
def test_a_chain_of_predicates(database: ps.Database, operator: str) -> None:
    """They would nest to the left, and each would be parsed again for every one around it."""
    started = time.process_time()
    error = refused(database, "SELECT v FROM s WHERE v" + f" {operator}" * 10_000)
    assert error.message == "10000 operators in a row"
    assert time.process_time() - started < 5


def test_a_chain_of_names(database: ps.Database) -> None:
    started = time.process_time()
    error = refused(database, "SELECT s" + ".x" * 100_000 + " FROM s")
    assert error.message == "100000 names with dots between them"
    assert time.process_time() - started < 5


def test_many_bounds(database: ps.Database) -> None:
    """Each is two comparisons."""
    parts = " OR ".join(["v BETWEEN 1 AND 2"] * 10_000)
    error = refused(database, f"SELECT v FROM s WHERE {parts}")
    assert error.message == "there are 29,999 conditions"


def test_chains_in_parentheses_are_chains_of_their_own(database: ps.Database) -> None:
    parts = " + ".join(["(v * v - v)"] * 100)
    assert database.sql(f"SELECT {parts} AS x FROM s WHERE (v + 1) IN ({'v + 1, ' * 500} 2)")


def test_a_sum_of_a_megabyte(database: ps.Database) -> None:
    error = refused(database, "SELECT v" + "+1.000000" * (MEGABYTE // 9) + " FROM s")
    assert error.message == "111111 operators in a row"


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


def test_too_many_columns(database: ps.Database) -> None:
    error = refused(database, "SELECT " + "v, " * 20_000 + "v FROM s")
    assert error.message == "a SELECT has up to 20,000 columns"
    error = refused(database, "SELECT " + "*, " * 7_000 + "v FROM s")
    assert error.message == "a SELECT has up to 20,000 columns"


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
