"""Every clause in every place where a SELECT may stand: honoured or refused, and never passed over.

A place is asked twice: with a SELECT in it, and with the rows in it that this SELECT has alone.
What it answers has to be the same; it may refuse.  That the rows of a SELECT alone follow from each
of its clauses is asked first.
"""

from __future__ import annotations

from collections import Counter
from itertools import cycle, product
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import tuples

ROWS = "(1, 5, 0), (2, 9, 0), (1, 7, 1), (1, 6, 1), (3, 1, 2), (2, 2, 4), (2, 4, 5), (1, 3, 8)"
STREAMS = f"""
CREATE STREAM r (x INT, y INT, t INT) FROM VALUES {ROWS} PROGRESS ON t ORDERED;
CREATE STREAM s (x INT, y INT, t INT)
  FROM VALUES (1, 6, 1), (2, 2, 1), (3, 1, 2), (2, 4, 4), (2, 8, 4), (2, 4, 5), (1, 1, 9)
  PROGRESS ON t ORDERED;
CREATE TABLE d (x INT, y INT, t INT) FROM VALUES {ROWS};
"""


class Clause(NamedTuple):
    """A piece of text, and where in a SELECT it stands."""

    where: str
    text: str
    without: str = ""  # what stands in its place where it is not said


PLACES_OF_CLAUSES = (
    *("with", "hint", "distinct", "items", "window", "from", "where", "group", "having"),
    *("window all", "windows", "qualify", "order", "limit", "late", "emit", "consistency", "more"),
)
CLAUSES = [
    Clause("with", "WITH {source} AS (SELECT x + 1 AS x, y, t FROM {source})"),
    Clause("hint", "/*+ WID */"),
    Clause("hint", "/*+ OPOB */"),
    Clause("distinct", "DISTINCT"),
    Clause("distinct", "DISTINCT ON (x)"),
    Clause("items", "*"),
    Clause("items", "{source}.* EXCEPT (y)", "*"),
    Clause("items", "* EXCLUDE (y)", "*"),
    Clause("items", "{source}.* REPLACE (x + 1 AS x) RENAME (y AS z)", "*"),
    Clause("items", "x + 1 AS x, t"),
    Clause("items", "x, t, row_number() OVER (PARTITION BY t ORDER BY y) AS n"),
    Clause("items", "x, t, row_number() OVER w AS n"),
    Clause("items", "x, count(*) AS n"),
    Clause("items", "x, max(t) AS t"),
    Clause("items", "unnest([x, x + 1]) AS x, t"),
    Clause("items", "{source}.x, {source}.t"),
    Clause("window", "[RANGE 4, SLIDE 2, WA t]"),
    Clause("window", "[SESSION GAP 2, WA t]"),
    Clause("from", "{source} JOIN (SELECT x AS k, y AS z FROM d WHERE y > 3) AS e ON x = k"),
    Clause("from", "{source} [RANGE 2, WA t]"),
    Clause(
        "from",
        "{source} [RANGE 2, WA t] JOIN"
        " (SELECT y, t AS u FROM r WHERE y > 3) AS e [RANGE 1, WA u] USING (y)",
    ),
    Clause("from", "TABLE(TUMBLE(TABLE {source}, DESCRIPTOR(t), 4))"),
    Clause("from", "{source}, UNNEST([x, 7]) AS u(item)"),
    Clause("where", "WHERE x > 1"),
    Clause("where", "WHERE x IN (SELECT x FROM d ORDER BY y LIMIT 1)"),
    Clause("where", "WHERE EXISTS (SELECT 1 FROM d e WHERE e.y = {source}.x AND e.t > 4 LIMIT 1)"),
    Clause("group", "GROUP BY x, t"),
    Clause("group", "GROUP BY x"),
    Clause("group", "GROUP BY ALL"),
    Clause("group", "GROUP BY GROUPING SETS ((x, t), (t))"),
    Clause("having", "HAVING count(*) > 1"),
    Clause("window all", "WINDOW 3"),
    Clause("windows", "WINDOW w AS (PARTITION BY t ORDER BY y DESC)"),
    Clause("qualify", "QUALIFY row_number() OVER (PARTITION BY t ORDER BY y) = 1"),
    Clause("qualify", "QUALIFY n = 1"),
    Clause("order", "ORDER BY y DESC"),
    Clause("limit", "LIMIT 1 BY t"),
    Clause("limit", "LIMIT 1"),
    Clause("limit", "OFFSET 1"),
    Clause("limit", "FETCH FIRST ROW ONLY BY t"),
    Clause("limit", "LIMIT 1 OFFSET 1 BY t"),
    Clause("late", "LATE AMEND"),
    Clause("emit", "EMIT IN ORDER"),
    Clause("emit", "EMIT EARLY EVERY 1 SECOND"),
    Clause("emit", "EMIT CHANGES"),
    Clause("consistency", "CONSISTENCY WEAK"),
    Clause("more", "UNION ALL SELECT x + 1, t FROM {source}"),
    Clause("more", "UNION SELECT x + 1, t FROM {source}"),
    Clause("more", "EXCEPT SELECT x, t FROM {source} WHERE y > 5"),
    Clause("more", "INTERSECT SELECT x, t FROM {source} WHERE y > 5"),
]
_ABSENT = {"items": "x, t", "from": "{source}"}


def select(source: str, clauses: list[Clause]) -> str:
    """The SELECT with these clauses, each at its place; two for one place are refused by it."""
    parts = []
    for place in PLACES_OF_CLAUSES:
        said = [each.text for each in clauses if each.where == place]
        if place == "items":
            parts += ["SELECT"] if not {"hint", "distinct"} & {c.where for c in clauses} else []
        if place == "hint" and {"hint", "distinct"} & {c.where for c in clauses}:
            parts.append("SELECT")
        if place == "from":
            parts.append("FROM")
        parts += said or ([_ABSENT[place]] if place in _ABSENT else [])
    return " ".join(parts).replace("{source}", source)


# --- places --------------------------------------------------------------------------------------

PLACES = {
    "sub-query": "SELECT * FROM ({}) AS q",
    "window": "SELECT count(*) AS m [RANGE 4, SLIDE 4, WA t] FROM ({}) AS q",
    "window function": "SELECT * FROM TABLE(TUMBLE(({}), DESCRIPTOR(t), 4))",
    "common table": "WITH q AS ({}) SELECT * FROM q",
    "view": "CREATE VIEW q AS {}; SELECT * FROM q",
    "query": "CREATE QUERY q AS {}; SELECT * FROM q",
    "IN": "SELECT * FROM s WHERE (x, t) IN ({})",
    "NOT IN": "SELECT * FROM s WHERE (x, t) NOT IN ({})",
    "IN of three": "SELECT * FROM s WHERE (x, y, t) IN ({})",
    "EXISTS": "SELECT * FROM s WHERE EXISTS ({})",
    "NOT EXISTS": "SELECT * FROM s WHERE NOT EXISTS ({})",
    "EXISTS over it": "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM ({}) AS q WHERE q.t = s.t)",
    "join": "SELECT s.x, s.y, q.* FROM s JOIN ({}) AS q ON s.x = q.x AND s.t = q.t",
    "left join": "SELECT s.x, s.y, q.* FROM s LEFT JOIN ({}) AS q ON s.x = q.x AND s.t = q.t",
    "comma": "SELECT s.x, s.y, q.* FROM s, ({}) AS q WHERE s.x = q.x AND s.t = q.t",
    "UNION ALL": "SELECT x, t FROM s UNION ALL {}",
    "UNION ALL in parentheses": "({}) UNION ALL SELECT x, t FROM s",
    "UNION": "SELECT x, t FROM s UNION ({})",
    "EXCEPT": "SELECT x, t FROM s EXCEPT ({})",
    "INTERSECT": "SELECT x, t FROM s INTERSECT ({})",
    "union in FROM": "SELECT * FROM (SELECT x, t FROM s) UNION ALL ({}) AS q",
    "difference": "SELECT x, t FROM s [RANGE 3, WA t] EXCEPT ON (x) ({}) AS q [RANGE 3, WA t]",
    "sequence": "SELECT s.x, q.t FROM SEQUENCE(s THEN ({}) AS q MODE RECENT ON s.x = q.x WITHIN 5)",
    "AS OF": "SELECT s.y, q.x FROM s JOIN ({}) AS q AS OF s.t ON s.x = q.x",
}
ENDINGS = ["", " EMIT CHANGES"]
ENGINES = ["reference", "local"]


def answer(sql: str, engine: str = "reference", base: str = STREAMS) -> Counter[Any] | None:
    """The rows of a query, without those that are taken back; None if it is refused."""
    database = ps.connect(engine)
    try:
        *_, query = database.script(f"{base}; {sql}")
        assert isinstance(query, ps.Query)
        return Counter(tuples(query.collect()))
    except ps.PenstockError:
        return None


def columns(sql: str) -> list[tuple[str, str]]:
    *_, query = ps.connect("reference").script(f"{STREAMS}; {sql}")
    assert isinstance(query, ps.Query)
    kinds = {pa.int32(): "INT", pa.int64(): "BIGINT"}
    return [(field.name, kinds[field.type]) for field in query.schema]


def over_rows(place: str, sql: str, rows: Counter[Any]) -> Counter[Any] | None:
    """What the place answers over the rows that the SELECT has alone: those of a stream, if it
    takes one, else those of a table."""
    declared = columns(sql)
    named = ", ".join(f"`{name}` {kind}" for name, kind in declared)
    names = [name for name, _ in declared]
    time = next((each for each in ("t", "window_end", "n", "x") if each in names), names[0])
    at = names.index(time)
    listed = sorted(rows.elements(), key=lambda row: (row[at] is None, row[at], str(row)))
    values = ", ".join(str(tuple("NULL" if v is None else v for v in row)) for row in listed)
    values = values.replace("'NULL'", "NULL").replace(",)", ")")
    source = f"FROM VALUES {values}" if rows else ""
    kinds = [f"CREATE STREAM given ({named}) {source} PROGRESS ON `{time}` ORDERED"]
    kinds.append(f"CREATE TABLE given ({named}) {source or 'FROM VALUES ' + nothing(len(names))}")
    empty = "" if rows else " WHERE 1 = 0"
    if not rows:
        kinds[0] = kinds[0].replace(" PROGRESS", f" FROM VALUES {nothing(len(names))} PROGRESS")
    for each in kinds:
        found = answer(place.format(f"SELECT * FROM given{empty}"), base=f"{STREAMS}; {each}")
        if found is not None:
            return found
    return None


def nothing(number: int) -> str:
    return "(" + ", ".join(["0"] * number) + ")"


def is_honoured(place: str, ending: str, source: str, clauses: list[Clause], engine: str) -> bool:
    """Whether the place answers; and if it does, whether that follows from the whole SELECT."""
    if place == "UNION ALL" and any(each.where == "more" for each in clauses):
        place = "UNION ALL in parentheses"  # else it would belong to the SELECT before, too
    sql = select(source, clauses)
    asked = PLACES[place].format(sql) + ending
    found = answer(asked, engine)
    if found is None:
        return False
    alone = sql if answer(sql + ending) is None else sql + ending
    rows = answer(alone)
    if rows is None:
        kept = [each for each in clauses if not says_nothing(place, each)]
        assert kept != clauses, f"answered there and refused alone: {asked}"
        assert answer(PLACES[place].format(select(source, kept)) + ending, engine) == found
        return True
    expected = over_rows(PLACES[place] + ending, alone, rows)
    assert expected is not None, f"answered, and refused over its rows: {asked}"
    assert found == expected, asked
    return True


def says_nothing(place: str, clause: Clause) -> bool:
    """Whether the answer of the place cannot depend on the clause: it asks which rows there are, or
    only whether there is one."""
    if place in ("EXISTS", "NOT EXISTS"):
        order = clause.where in ("limit", "order") and "OFFSET" not in clause.text
        return order or clause.text == "DISTINCT" or "OVER" in clause.text
    return place.endswith("IN") and clause.text == "DISTINCT"


# --- alone ---------------------------------------------------------------------------------------

# What has to be said together with a clause, so that it can stand there at all.
TOGETHER = {
    "/*+ WID */": ["x, count(*) AS n", "[RANGE 4, SLIDE 2, WA t]", "GROUP BY x"],
    "DISTINCT ON (x)": ["[RANGE 4, SLIDE 2, WA t]"],
    "x, t, row_number() OVER w AS n": ["WINDOW w AS (PARTITION BY t ORDER BY y DESC)"],
    "x, count(*) AS n": ["[RANGE 4, SLIDE 2, WA t]", "GROUP BY x"],
    "x, max(t) AS t": ["GROUP BY x, t"],
    "[RANGE 4, SLIDE 2, WA t]": ["x, count(*) AS n", "GROUP BY x"],
    "[SESSION GAP 2, WA t]": ["x, count(*) AS n", "GROUP BY x"],
    "HAVING count(*) > 1": ["x, count(*) AS n", "GROUP BY x", "[RANGE 4, SLIDE 2, WA t]"],
    "WINDOW 3": ["x, count(*) AS n", "GROUP BY x"],
    "QUALIFY n = 1": ["x, t, row_number() OVER (PARTITION BY t ORDER BY y) AS n"],
    "WINDOW w AS (PARTITION BY t ORDER BY y DESC)": ["x, t, row_number() OVER w AS n"],
    "TABLE(TUMBLE(TABLE {source}, DESCRIPTOR(t), 4))": ["*"],
    "ORDER BY y DESC": ["LIMIT 1 BY t"],
    "GROUP BY ALL": ["x, max(t) AS t"],
}
# What changes no row of a SELECT alone: how it is computed, when its rows come, and what is so
# anyway.
CHANGES_NOTHING = (
    *("/*+ WID */", "/*+ OPOB */", "LATE AMEND", "EMIT IN ORDER", "EMIT EARLY EVERY 1 SECOND"),
    *("EMIT CHANGES", "CONSISTENCY WEAK", "{source}.x, {source}.t", "GROUP BY x, t"),
    *("WINDOW w AS (PARTITION BY t ORDER BY y DESC)", "{source} [RANGE 2, WA t]"),
    *("DISTINCT", "GROUP BY ALL", "x, max(t) AS t"),
)


def with_what_it_needs(clause: Clause) -> list[Clause]:
    texts = TOGETHER.get(clause.text, [])
    return [clause, *(next(each for each in CLAUSES if each.text == text) for text in texts)]


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda each: each.text)
def test_alone(clause: Clause) -> None:
    """A clause says something of the rows, or is refused with an error."""
    _, *others = with_what_it_needs(clause)
    instead = [Clause(clause.where, clause.without)] if clause.without else []
    found = answer(select("r", [clause, *others]))
    without = answer(select("r", [*instead, *others]))
    if clause.text in CHANGES_NOTHING:
        assert without is None or found in (None, Counter(set(without)), without)
    else:
        assert found != without


# --- everywhere ----------------------------------------------------------------------------------

SOURCES = ["r", "d"]
ALL = [*product(PLACES, ENDINGS, SOURCES, range(len(CLAUSES)))]


@given(st.sampled_from(ALL), st.sampled_from(ENGINES))
@settings(max_examples=150)
def test_a_clause_in_a_place(case: tuple[str, str, str, int], engine: str) -> None:
    place, ending, source, number = case
    honoured = is_honoured(place, ending, source, with_what_it_needs(CLAUSES[number]), engine)
    event("answered" if honoured else "refused")


@st.composite
def clauses(draw: st.DrawFn) -> list[Clause]:
    """Some, each at a place of its own."""
    places = draw(st.lists(st.sampled_from(PLACES_OF_CLAUSES), max_size=5, unique=True))
    return [draw(st.sampled_from([c for c in CLAUSES if c.where == each])) for each in places]


@given(
    st.sampled_from(sorted(PLACES)),
    st.sampled_from(ENDINGS),
    st.sampled_from(SOURCES),
    clauses(),
    st.sampled_from(ENGINES),
)
@settings(max_examples=150)
def test_clauses_in_a_place(
    place: str, ending: str, source: str, said: list[Clause], engine: str
) -> None:
    event("answered" if is_honoured(place, ending, source, said, engine) else "refused")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_clause_in_every_place(place: str) -> None:
    cases = product(ENDINGS, SOURCES, CLAUSES)
    for (ending, source, clause), engine in zip(cases, cycle(ENGINES), strict=False):
        is_honoured(place, ending, source, with_what_it_needs(clause), engine)
