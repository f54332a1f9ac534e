"""What a user reads when something is wrong: the place, what was found, what to try.

The files in tests/fixtures/errors hold statements and the whole text that each of them brings.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock as ps

FOLDER = Path(__file__).parents[1] / "fixtures" / "errors"
STREAMS = (FOLDER / "streams.sql").read_text(encoding="utf-8")


def message(sql: str) -> str:
    database = ps.connect("reference")
    for _ in database.script(STREAMS):
        pass
    with pytest.raises(ps.PenstockError) as caught:
        for _ in database.script(sql):
            pass
    return f"{type(caught.value).__name__}: {caught.value}"


def cases(path: Path) -> list[tuple[str, str]]:
    """Blocks between empty lines: a statement, then the class of the error and its text."""
    _about, *blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    found = []
    for block in blocks:
        start = re.search(r"^\w+Error: ", block, re.MULTILINE)
        assert start, block
        found.append((block[: start.start() - 1], block[start.start() :]))
    return found


CASES = [
    pytest.param(*case, id=f"{path.stem}-{number}")
    for path in sorted(FOLDER.glob("*.txt"))
    for number, case in enumerate(cases(path), start=1)
]


def test_there_are_cases() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_the_whole_text(sql: str, expected: str) -> None:
    assert message(sql) == expected


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_a_line_is_shown_and_pointed_into(sql: str, expected: str) -> None:
    """The same for all: the line of the statement and carets below some of it."""
    _, place, line, carets, *rest = expected.split("\n")
    number, column = map(int, re.fullmatch(r"  at line (\d+), column (\d+):", place).groups())  # type: ignore[union-attr]
    shown, offset = line.split(" | ", 1)[1], line.index(" | ") + 3
    source = sql.split("\n")[number - 1]
    assert shown.lstrip("…") in source
    assert set(carets.strip()) == {"^"}
    start = carets.index("^") - offset
    hidden = len(source) - len(shown.lstrip("…")) if shown.startswith("…") else 0
    assert start - shown.startswith("…") + hidden == column - 1
    assert all(re.match(r"  (expected|try): \S", line) for line in rest)


# --- lines and places ----------------------------------------------------------------------------


def test_an_error_in_a_long_line_shows_the_part_around_it() -> None:
    columns = ", ".join(f"v AS c{number}" for number in range(100))
    text = message(f"SELECT {columns}, vv, {columns.replace('c', 'd')} FROM s")
    _, place, line, carets, *_ = text.split("\n")
    assert place == f"  at line 1, column {len(columns) + 10}:"
    assert len(line) < 140
    assert line.endswith("…")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "vv"


def test_tabs_do_not_move_the_caret() -> None:
    _, _, line, carets, *_ = message("SELECT\tv,\tvv\tFROM s").split("\n")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "vv"


def test_lines_may_end_as_on_windows() -> None:
    lines = message("SELECT v\r\nFROM s\r\nWHERE vv = 1\r\n").split("\n")
    assert lines[1:4] == ["  at line 3, column 7:", "  3 | WHERE vv = 1", "            ^^"]


def test_characters_beyond_ascii_are_counted_as_one() -> None:
    _, place, line, carets, *_ = message("SELECT '∪😀' AS a, vv FROM s").split("\n")
    assert place == "  at line 1, column 19:"
    assert line[carets.index("^") : carets.rindex("^") + 1] == "vv"


def test_a_late_error_points_into_its_own_script() -> None:
    """A query remembers the text it came from, for errors that only the data brings."""
    database = ps.connect("reference")
    query = database.sql(
        "CREATE STREAM t (k STRING) FROM VALUES ('7'), ('x');\nSELECT CAST(k AS INT) AS n FROM t"
    )
    assert isinstance(query, ps.Query)
    with pytest.raises(ps.RunError) as caught:
        query.collect()
    assert "  at line 2, column 8:\n  2 | SELECT CAST(k AS INT) AS n FROM t" in str(caught.value)


def test_what_was_carried_out_before_the_error_stays() -> None:
    database = ps.connect("reference")
    with pytest.raises(ps.BindError):
        database.sql("CREATE STREAM a (x INT); DROP STREAM c; CREATE STREAM b (x INT)")
    assert database.streams == ["a"]


def test_a_script_that_cannot_be_parsed_does_nothing() -> None:
    database = ps.connect("reference")
    with pytest.raises(ps.ParseError):
        database.sql("CREATE STREAM a (x INT); SELECT FROM a")
    assert database.streams == []


# --- details that make a message helpful ---------------------------------------------------------

DETAILS = {
    # a key word that others write without parentheses
    "SELECT current_timestamp FROM s": "depend on when it is computed",
    # nobody wrote a window; what is missing is the progress of the stream
    "SELECT s.k FROM s, still WHERE s.k = still.k": "still does not progress",
    "SELECT count(*) [RANGE 10, SLIDE 10] FROM still": "PROGRESS ON",
    # the value that differs from the first one is the 2
    "SELECT CASE WHEN v > 1 THEN 'a' ELSE 2 END FROM s": r"\n {43}\^\n  expected: a STRING",
    # such a cast is refused, too
    "SELECT v FROM s WHERE ts > 3": r"try: (?!CAST)",
    # the caret stands at the second RANGE
    "SELECT 1 [RANGE 1 MINUTE, RANGE 2 MINUTES] FROM s": "RANGE twice\n.*\n.*\n {32}\\^",
    # nothing can be cast in a declaration; and it is an error of binding
    "CREATE STREAM t (x DOUBLE) PROGRESS ON x ORDERED": "^BindError(.*\n)*.*try: x DECIMAL",
    "SELECT v + INTERVAL 1 MONTH FROM s": "^BindError",
    # no hint where nothing is near, one where something is
    "UPDATE s SET v = 1": r"EXPLAIN, not 'UPDATE'(?!(.*\n)*.*try: CREATE)",
    "CREATE STREM t (a INT)": "try: STREAM",
    # there is always a place
    "SELECT count(*) FROM s WINDOW 0 MINUTES": r"\n +\^+",
    "SELECT v FROM s WHERE " + "NOT " * 500 + "v = 1": r"\n +\^+",
    # there is no column here
    "SELECT v FROM s EMIT EARLY EVERY 5": r"5 has no unit\n",
    # v is a column of s; it is r that lacks it
    "SELECT k FROM s EXCEPT ON (v) r": "unknown column 'v' .*r",
    # what was found, as everywhere else
    "SELECT (v FROM s": r"expected \), found 'FROM'",
    "SELECT v + FROM s": "expected an expression, found 'FROM'",
    # they want SLACK, and a larger type
    "CREATE STREAM t (d DATE) PROGRESS ON d DELAY 5 ROWS": "try: SLACK 5 ROWS",
    "CREATE STREAM t (a INT) FROM VALUES (99999999999)": "BIGINT",
    # the line is short enough to be shown whole
    "SELECT count(*) [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s, s AS r2, vv": r"1 \| SELECT",
    # long names are cut
    "SELECT " + "x" * 100_000 + " FROM s": r"\A.{0,200}\n",
    "SELECT z.* FROM s": "expected: one of s",
}


@pytest.mark.parametrize("sql", DETAILS, ids=lambda sql: sql[:40])
def test_a_detail_of_a_message(sql: str) -> None:
    assert re.search(DETAILS[sql], message(sql))
