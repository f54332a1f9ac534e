"""Regular expressions: as DuckDB, which has RE2, too, computes them, and in linear time."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.regular_expressions import counted, extracted, groups_of, matching, replaced
from tests.functions.helpers import answer

texts = st.text("abc(\\[]é\n1 ", max_size=12)
atoms = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^]a]", r"\d", r"\(", r"\w", "[[:alpha:](]"])


def patterns() -> st.SearchStrategy[str]:
    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            inner.map(lambda each: f"({each})"),
            inner.map(lambda each: f"(?:{each})*"),
            inner.map(lambda each: f"(?P<name>{each})?"),
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("|".join),
        )

    unnamed = st.recursive(atoms, larger, max_leaves=6)
    return unnamed.filter(lambda each: each.count("?P<name>") < 2)


@given(pattern=patterns(), text=texts, data=st.data())
@settings(deadline=None, max_examples=200)
def test_like_duckdb(pattern: str, text: str, data: st.DataObject) -> None:
    group = data.draw(st.integers(0, groups_of(pattern)))
    sql = (
        f"SELECT regexp_matches($t, $p), regexp_extract($t, $p, {group}),"
        " regexp_replace($t, $p, '<\\0>', 'g')"
    )
    row = duckdb.execute(sql, {"t": text, "p": pattern}).fetchone()
    assert row is not None
    column = pa.array([text, None])
    assert matching(column, pattern).to_pylist() == [row[0], None]
    found = extracted(column, pattern, group).to_pylist()
    assert found == [row[1] if row[0] else None, None]  # DuckDB has '' for what is not there
    assert replaced(column, pattern, "<$0>").to_pylist() == [row[2], None]
    assert (counted(column, pattern).to_pylist()[0] > 0) == row[0]


def test_no_pattern_takes_for_ever() -> None:
    assert (
        answer("regexp_like(repeat_me, '(a*)*b')".replace("repeat_me", f"'{'a' * 5000}'")) is False
    )


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("a", 0),
        ("(a)", 1),
        (r"\(a\)", 0),
        ("[(]", 0),
        ("[]()]", 0),
        (r"\Q(\E(b)", 1),
        ("(?i)(?:a)", 0),
    ],
)
def test_groups_are_counted(pattern: str, groups: int) -> None:
    assert groups_of(pattern) == groups


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s RLIKE 'B'", False),
        ("s NOT RLIKE 'B'", True),
        ("s REGEXP '^a'", True),
        ("s ~* 'B'", True),
        ("regexp_like(s, 'B', 'i')", True),
        ("regexp_extract(s, 'b.')", "bc"),
        ("regexp_extract(s, 'x')", None),
        ("regexp_extract(s, '(a)(b)', 2)", "b"),
        ("regexp_replace(s, '(a)(b)', '$2$1')", "bac"),
        (r"regexp_replace(s, '(a)(b)', '\2\1')", "bac"),
        (r"regexp_replace(s, 'b', '\$1 $')", "a$1 $c"),
        ("regexp_count(s, '[ab]')", 2),
        ("regexp_like(s, s)", True),  # a pattern in a column
    ],
)
def test_spellings(expression: str, expected: object) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("regexp_like(s, '(')", "missing )"),
        ("regexp_like(s, 'a(?=b)')", "is not a regular expression of RE2"),
        ("regexp_like(s, 'a', 'q')", "'q' is no flag"),
        ("regexp_extract(s, '(a)')", "does not say which group"),
        ("regexp_extract(s, '(a)', 2)", "there is no group 2"),
        (r"regexp_replace(s, 'a', '\q')", "means nothing in the replacement"),
        ("regexp_replace(s, 'a', '$2')", "requests 2 matches"),
    ],
)
def test_what_is_refused(expression: str, message: str) -> None:
    with pytest.raises(ps.PenstockError) as caught:
        answer(expression)
    assert message in str(caught.value)
    assert caught.value.span is not None
