"""Whatever the text: statements are carried out or refused, soon, and never anything else.

An example that takes longer than the deadline fails, so that a text that hangs is found, too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.aggregate_functions import AGGREGATES
from penstock.functions.scalar_functions import SCALARS
from penstock.sql.parser.parser import Penstock
from penstock.sql.parser.statements import parse_script

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = [path.read_text(encoding="utf-8") for path in sorted(FIXTURES.rglob("*.sql"))]
STREAMS = """CREATE STREAM s (k STRING, v INT, x DOUBLE, d DECIMAL(9,2), ts TIMESTAMP)
  PROGRESS ON ts DELAY 5 SECONDS;
CREATE STREAM r (k STRING, v INT, t INT) PROGRESS ON t ORDERED;
CREATE TABLE names (k STRING, v INT);
"""
WORDS = r"""
SELECT DISTINCT ALL FROM WHERE GROUP BY HAVING WINDOW LATE DROP SIDE AMEND EMIT EARLY EVERY IN
ORDER UNION EXCEPT ON JOIN INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI NATURAL SEQUENCE THEN MODE
RECENT CHRONICLE WITHIN KEEP FIRST SECOND BOTH AS OF SYSTEM_TIME DESC TABLE SPLIT INTO OTHERWISE
CREATE STREAM QUERY EXPLAIN IF EXISTS VALUES FILES FORMAT CSV PROGRESS ORDERED DELAY SLACK ROWS ROW
PUNCTUATED WHEN BOUND PER FILE IDLE AFTER FUTURE LIMIT EXTERNAL INTERNAL LATENT RANGE SLIDE WA
WATTR RATTR SATTR PA PATTR ORIGIN TUMBLING rank row-num AND OR NOT IS NULL TRUE FALSE LIKE ILIKE
BETWEEN CASE ELSE END CAST TRY_CAST EXTRACT POSITION SUBSTRING INTERVAL DATE TIMESTAMP INT
BIGINT DOUBLE DECIMAL STRING BINARY BOOLEAN ARRAY MAP STRUCT MINUTES SECOND ms MONTH FILTER OVER
PARTITION ORDER OFFSET QUALIFY WITH LATERAL UNNEST PIVOT ESCAPE COLLATE AT TIME ZONE ANY SOME
DIV XOR RLIKE SIMILAR TO FETCH FOR USING TABLESAMPLE GROUPBY GROUP-BY s r names k v x d ts t
window_id window_end count sum 1 0 -1 2147483648 9223372036854775808 1.5 1e3 1e400 0x1F .5 1. 'a' ''
'2026-01-01' "b" `k` x'ab' + - * / % = <> < >= <=> || :: . , ; ( ) [ ] { } @ # $ ? ! : & | ^ ~ \
∪ -- /* */
"""
VOCABULARY = [*WORDS.split(), *SCALARS, *AGGREGATES]
PIECES = re.compile(r"'[^']*'|`[^`]*`|\w+|\s+|.", re.DOTALL)

any_time = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def carry_out(text: str) -> None:
    """Everything short of reading data; only Penstock's own errors may come out, with a text."""
    said = "carried out"
    try:
        for result in ps.connect("reference").script(text):
            if isinstance(result, ps.Query):
                said = f"{result.explain()} {result.schema}"
    except ps.PenstockError as error:
        said = str(error)
    assert said
    assert "sqlglot" not in said


# Halves of surrogate pairs cannot come out of a file, but out of a Python program they can.
ANY_TEXT = st.text(st.characters(codec=None), max_size=60)


@given(ANY_TEXT)
@settings(any_time, max_examples=400)
@example("\x00")
@example("'")
@example("/*")
@example("`")
@example("--")
def test_any_text(text: str) -> None:
    carry_out(text)


@given(st.lists(st.sampled_from(VOCABULARY) | ANY_TEXT, max_size=30), st.sampled_from([" ", ""]))
@settings(any_time, max_examples=400)
def test_any_words(words: list[str], between: str) -> None:
    carry_out(between.join(words))


SOUP = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8).map(" ".join)


@given(SOUP, SOUP | st.just("s"), SOUP | st.just(""))
@settings(any_time, max_examples=700)
@example("interval 1e30 weeks", "s", "")
@example("count(*) [RANGE ALL, SLIDE 2 ROWS]", "s", "")
@example("DATE '0000-00-00'", "s", "")
@example("CAST(v AS DECIMAL(99,99))", "s", "")
@example("1", "s", "WHERE v IN (SELECT")
@example("1", "s", "WHERE EXISTS (SELECT 1 FROM s WHERE EXISTS (SELECT 1 FROM s")
@example("1", "s [RANGE 1 DAY] FULL JOIN s AS u [RANGE 1 DAY] ON TRUE", "WINDOW 1 DAY")
@example("1", "r JOIN names AS OF r.t ON TRUE", "")
def test_words_where_a_query_has_them(items: str, source: str, rest: str) -> None:
    carry_out(f"{STREAMS} SELECT {items} FROM {source} {rest}")


@given(SOUP, SOUP)
@settings(any_time, max_examples=300)
def test_words_where_a_stream_has_them(values: str, progress: str) -> None:
    carry_out(
        f"CREATE STREAM t (a INT, b TIMESTAMP) FROM VALUES (1, {values}) PROGRESS ON b {progress}"
    )


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A fixture with a few pieces deleted, doubled, exchanged, replaced or cut off."""
    pieces = PIECES.findall(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 4))):
        assume(pieces)
        # mistakes near the end, where the query is, get further than those in a declaration
        at = len(pieces) - 1 - draw(st.integers(0, min(len(pieces) - 1, 150)))
        match draw(st.sampled_from(["delete", "double", "exchange", "replace", "insert", "cut"])):
            case "delete":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "exchange":
                other = draw(st.integers(0, len(pieces) - 1))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case "replace":
                pieces[at] = draw(st.sampled_from(VOCABULARY))
            case "insert":
                pieces.insert(at, draw(ANY_TEXT | st.sampled_from(VOCABULARY)))
            case _:
                del pieces[at:]
    return "".join(pieces)


@given(mutated())
@settings(any_time, max_examples=1000)
def test_files_with_mistakes(text: str) -> None:
    carry_out(text)


def statements() -> list[list[str]]:
    """The words of the last statement of every file, which is its query."""
    found = []
    for text in FILES:
        words = [text[each.start : each.end + 1] for each in Penstock().tokenize(text)]
        ends = [place for place, word in enumerate(words[:-1]) if word == ";"]
        found.append(words[ends[-1] + 1 if ends else 0 :])
    return found


QUERIES = statements()


def parse(words: list[str]) -> None:
    """Only errors of ours may come out."""
    with suppress(ps.PenstockError):
        parse_script(" ".join(words))


def test_queries_that_end_behind_any_word() -> None:
    """Where the last two words are the same, one of the queries will do."""
    cuts = {}
    for words in QUERIES:
        for end in range(1, len(words)):
            cuts[tuple(words[max(0, end - 2) : end])] = words[:end]
    assert len(cuts) > 1000
    for words in cuts.values():
        parse(words)


@pytest.mark.slow
@pytest.mark.parametrize("words", QUERIES, ids=lambda words: " ".join(words)[:40])
def test_every_query_that_ends_behind_any_word(words: list[str]) -> None:
    for end in range(1, len(words)):
        parse(words[:end])


@given(st.sampled_from(QUERIES), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400))))
@settings(any_time, max_examples=300)
def test_queries_with_words_exchanged(words: list[str], pairs: list[tuple[int, int]]) -> None:
    words = list(words)
    for one, other in pairs[:4]:
        one, other = one % len(words), other % len(words)
        words[one], words[other] = words[other], words[one]
    parse(words)


@pytest.mark.parametrize("sql", ["SELECT 11E FROM s", "SELECT v FROM s WHERE ts > '\ud800'"])
def test_crashes(sql: str) -> None:
    with pytest.raises(ps.PenstockError):
        list(ps.connect("reference").script(STREAMS + sql))
