"""Spelling: case, units, other words for the same, quotes, comments, and several statements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding
from penstock.sql.parser.statements import parse_script
from penstock.sql.syntax import CreateQuery

STREAM = "CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) PROGRESS ON ts DELAY 5 SECONDS"
COUNT = "SELECT k, count(*) AS n [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts] FROM s GROUP BY k"


def bound(sql: str, stream: str = STREAM) -> ps.Query:
    database = ps.connect("reference")
    database.sql(stream)
    query = database.sql(sql)
    assert isinstance(query, ps.Query)
    return query


def window(clause: str) -> object:
    plan = bound(f"SELECT count(*) {clause} FROM s").plan
    (node,) = [node for node in plan.walk() if isinstance(node, WindowAggregate)]
    return node.window


# --- case and other spellings --------------------------------------------------------------------


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title, str.swapcase])
def test_case_does_not_matter(change: Callable[[str], str]) -> None:
    """Not in key words, not in units, not in names, not in functions."""
    plan = bound(change(COUNT)).plan
    assert [name.casefold() for name in plan.schema.names] == [
        *("window_start", "window_end", "k", "n")
    ]
    (node,) = [node for node in plan.walk() if isinstance(node, WindowAggregate)]
    (same,) = [node for node in bound(COUNT).plan.walk() if isinstance(node, WindowAggregate)]
    assert node == same
    assert bound(COUNT, change(STREAM)).explain().casefold() == bound(COUNT).explain().casefold()


def test_a_column_is_found_as_written_before_any_other_case() -> None:
    stream = "CREATE STREAM s (a INT) FROM VALUES (1)"
    assert bound("SELECT A FROM s", stream).collect().to_pylist() == [{"A": 1}]
    both = "SELECT A AS big, a AS small FROM (SELECT a, 2 AS A FROM s) AS q"
    assert bound(both, stream).collect().to_pylist() == [{"big": 2, "small": 1}]


@pytest.mark.parametrize(
    "spelling",
    [
        COUNT.replace("WA ts", "WATTR ts"),
        COUNT.replace("GROUP BY", "GROUPBY"),
        COUNT.replace("GROUP BY", "GROUP-BY"),
        COUNT.replace("GROUP BY", "group   by"),
        COUNT.replace("count(*)", "count (*)"),
        COUNT.replace("RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts", "WA ts, SLIDE 60 s, RANGE 600 s"),
        COUNT.replace("10 MINUTES", "'10 minutes'"),
        COUNT.replace("10 MINUTES", "'10' MINUTES"),
        COUNT.replace("10 MINUTES", "INTERVAL 10 MINUTES"),
        COUNT.replace(", WA ts", ""),
        COUNT.replace("GROUP BY k", "GROUP BY 1"),
        COUNT.replace("GROUP BY k", "GROUP BY s.k"),
        COUNT.replace("FROM s", "FROM s AS s"),
        COUNT.replace("count(*) AS n [", "count(*) n ["),
        COUNT.replace("SELECT k", "SELECT ALL k"),
        COUNT + " LATE DROP",
        COUNT + ";",
    ],
)
def test_other_spellings_of_the_same_query(spelling: str) -> None:
    assert bound(spelling).plan == bound(COUNT).plan


def test_the_window_may_stand_after_any_column() -> None:
    early = "SELECT k [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts], count(*) AS n FROM s GROUP BY k"
    assert bound(early).plan == bound(COUNT).plan


@pytest.mark.parametrize("word", ["row-num", "ROW-NUM", "row_num", "rownum", "seq-num"])
def test_words_for_the_number_of_a_row(word: str) -> None:
    assert window(f"[RANGE 5 ROWS, SLIDE 1 ROW, WA {word}]") == window(
        "[RANGE 5 ROWS, SLIDE 1 ROW]"
    )


@pytest.mark.parametrize("word", ["PA", "PATTR"])
def test_words_for_a_partition(word: str) -> None:
    several = window(f"[RANGE 5 ROWS, SLIDE 1 ROW, {word} (k, v)]")
    assert several == window(f"[RANGE 5 TUPLES, SLIDE 1 TUPLE, {word} k]")


@pytest.mark.parametrize("union", ["UNION", "union all", "∪", "Union"])
def test_words_for_union(union: str) -> None:
    sql = "SELECT count(*) [RANGE 1 DAY, SLIDE 1 DAY] FROM s {} s AS u"
    assert bound(sql.format(union)).plan == bound(sql.format("UNION")).plan


# --- units ---------------------------------------------------------------------------------------

UNITS = {
    1: ["MICROSECOND", "MICROSECONDS", "us"],
    1_000: ["MILLISECOND", "MILLISECONDS", "ms"],
    1_000_000: ["SECOND", "SECONDS", "sec", "secs", "s"],
    60_000_000: ["MINUTE", "MINUTES", "min", "mins", "Min"],
    3_600_000_000: ["HOUR", "HOURS", "h", "hr", "hrs"],
    86_400_000_000: ["DAY", "DAYS", "d"],
    604_800_000_000: ["WEEK", "WEEKS", "w"],
}


@pytest.mark.parametrize(
    ("length", "unit"), [(length, unit) for length, units in UNITS.items() for unit in units]
)
def test_units(length: int, unit: str) -> None:
    assert window(f"[RANGE 3 {unit}, SLIDE 1 {unit}]") == Sliding(3 * length, length)
    expression = bound(f"SELECT ts + INTERVAL 3 {unit} AS t FROM s").plan.input.columns[0]  # type: ignore[attr-defined]
    assert expression.expression.arguments[1].value == 3 * length


def test_parts_of_units() -> None:
    assert window("[RANGE 1.5 SECONDS, SLIDE 0.5 s]") == Sliding(1_500_000, 500_000)
    with pytest.raises(ps.BindError, match="not a whole number of microseconds"):
        window("[RANGE 0.0000001 SECONDS, SLIDE 1 s]")


# --- quotes and comments -------------------------------------------------------------------------

ODD = """CREATE STREAM `odd stream` (`group` INT, `a b` STRING, `ü∪` INT)
FROM VALUES (1, 'it\'\'s', 2), (3, "say ""so"" ", 4)"""


def test_names_in_back_quotes() -> None:
    sql = "SELECT `group`, `odd stream`.`a b` AS `the text`, `ü∪` FROM `odd stream`"
    assert bound(sql, ODD).collect().to_pylist() == [
        {"group": 1, "the text": "it's", "ü∪": 2},
        {"group": 3, "the text": 'say "so" ', "ü∪": 4},
    ]


def test_key_words_need_no_quotes_where_columns_are_declared() -> None:
    stream = "CREATE STREAM t (range INT, slide INT, late INT) FROM VALUES (1, 2, 3)"
    query = bound("SELECT range, slide, `late` FROM t", stream)
    assert query.collect().to_pylist() == [{"range": 1, "slide": 2, "late": 3}]


def test_both_kinds_of_quotes_make_texts() -> None:
    sql = "SELECT k FROM s WHERE k = 'a'"
    assert bound(sql.replace("'", '"')).plan == bound(sql).plan


@pytest.mark.parametrize(
    "sql",
    [
        "-- before\nSELECT k FROM s",
        "SELECT k -- between\nFROM s",
        "SELECT /* inside */ k FROM s /* after */",
        "SELECT k FROM s -- after",
        "SELECT k /* over\n two lines -- and more */ FROM s",
        "/* one */ /* two */ SELECT k FROM s",
    ],
)
def test_comments(sql: str) -> None:
    assert bound(sql).plan == bound("SELECT k FROM s").plan


def test_signs_of_comments_inside_texts_are_text() -> None:
    stream = "CREATE STREAM t (a STRING) FROM VALUES ('--'), ('/*')"
    query = bound("SELECT a FROM t WHERE a IN ('--', '*/')", stream)
    assert query.collect().to_pylist() == [{"a": "--"}]


# --- statements ----------------------------------------------------------------------------------


def test_several_statements_are_carried_out_in_turn() -> None:
    database = ps.connect("reference")
    results = list(database.script(f";; {STREAM}; SELECT k FROM s;; EXPLAIN SELECT v FROM s; "))
    assert [type(result) for result in results] == [type(None), ps.Query, ps.Explanation]


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing", "/* nothing */;"])
def test_a_script_of_nothing(text: str) -> None:
    assert list(ps.connect("reference").script(text)) == []
    assert ps.connect("reference").sql(text) is None


def test_a_named_query_can_be_read_like_a_stream() -> None:
    database = ps.connect("reference")
    database.sql(f"{STREAM}; create query Counts as {COUNT}")
    assert database.queries == ["Counts"]
    query = database.sql("SELECT k FROM counts AS c WHERE c.n > 1")
    assert isinstance(query, ps.Query)
    assert "WindowAggregate" in query.explain()
    assert database.query("COUNTS").plan == bound(COUNT).plan


def test_streams_and_queries_are_dropped() -> None:
    database = ps.connect("reference")
    database.sql(f"{STREAM}; CREATE QUERY named AS {COUNT}")
    with pytest.raises(ps.BindError, match="read by named"):
        database.sql("DROP STREAM s")
    database.sql("drop query NAMED; Drop Stream S")
    assert (database.streams, database.queries) == ([], [])
    database.sql(STREAM)
    assert database.streams == ["s"]


@pytest.mark.parametrize("kind", ["STREAM", "QUERY"])
def test_dropping_what_is_not_there(kind: str) -> None:
    database = ps.connect("reference")
    with pytest.raises(ps.BindError, match=f"there is no {kind.lower()} called 'x'"):
        database.sql(f"DROP {kind} x")
    assert database.sql(f"DROP {kind} IF EXISTS x") is None


def test_if_exists_drops_what_is_there() -> None:
    database = ps.connect("reference")
    database.sql(f"{STREAM}; CREATE QUERY named AS {COUNT}")
    database.sql("DROP QUERY IF EXISTS named; DROP STREAM IF EXISTS s")
    assert (database.streams, database.queries) == ([], [])


def test_a_stream_and_a_query_cannot_share_a_name() -> None:
    database = ps.connect("reference")
    database.sql(STREAM)
    with pytest.raises(ps.BindError, match="'S' exists already"):
        database.sql(f"CREATE QUERY S AS {COUNT}")


@pytest.mark.parametrize(
    "clause",
    [
        *("LIMIT 1", "LIMIT 1 OFFSET 0", "OFFSET 3", "LATE AMEND FOR 10", "EMIT EARLY EVERY 5"),
        *("EMIT CHANGES KEEP FOR 10", "WINDOW 5", "CONSISTENCY LEVEL 3", "LIMIT 3 LATE DROP"),
    ],
)
def test_a_bare_number_takes_no_word_of_the_language_for_its_unit(clause: str) -> None:
    (made,) = parse_script(f"CREATE QUERY q AS SELECT v FROM s {clause} INTO 'rows.jsonl'")
    assert isinstance(made, CreateQuery)
    assert made.into.rows is not None


@pytest.mark.parametrize("after", ["", " OFFSET 1", " BY k"])
def test_a_limit_before_minus(after: str) -> None:
    parse_script(f"SELECT v FROM s LIMIT 3{after} MINUS SELECT v FROM s")
