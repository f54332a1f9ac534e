"""LIKE and ILIKE against the reference: random patterns, and the case of every character."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.expressions.pattern_kernels import _LAST_CASED, _cases
from penstock.functions.scalar_functions import FUNCTIONS
from penstock.model.types import BOOLEAN, STRING, Schema
from penstock.plan.expressions import Call, Column, Literal

T = Column("c0", STRING)


@pytest.mark.parametrize("name", ["like", "ilike"])
def test_random_patterns(
    agree: Callable[..., None], schema_of: Callable[..., Schema], name: str
) -> None:
    pick = random.Random(7)
    letters = "abB%_\\é.\n"
    texts = ["".join(pick.choices(letters, k=pick.randint(0, 6))) for _ in range(60)]
    for _ in range(150):
        pattern = "".join(pick.choices(letters, k=pick.randint(0, 6)))
        like = Call(name, (T, Literal(pattern, STRING)), BOOLEAN)
        agree(like, schema_of(STRING), [(text,) for text in (*texts, pattern)])


def test_a_pattern_too_large_for_regular_expressions(
    agree: Callable[..., None], schema_of: Callable[..., Schema]
) -> None:
    like = Call("like", (T, Literal("a_%" * 20_000, STRING)), BOOLEAN)
    agree(like, schema_of(STRING), [("ab",), (None,)])


@pytest.mark.parametrize("character", [*"kKsSiIaßΣµİﬅ7%", "\u0345", "\u1c80"])
def test_the_same_characters_as_in_python(character: str) -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    found = re.findall(re.escape(character), every, re.IGNORECASE)
    assert "".join(found) == _cases(character)


def test_no_letter_after_the_last_has_two_cases() -> None:
    later = map(chr, range(_LAST_CASED + 1, 0x110000))
    assert all(each.lower() == each == each.upper() for each in later)


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("pattern", ["p", "'" + "%a" * 25 + "%b'"])
@pytest.mark.parametrize("like", ["LIKE", "ILIKE"])
def test_many_wildcards(engine: str, pattern: str, like: str) -> None:
    """Trying all places for all of them would take longer than there is."""
    db = ps.connect(engine)
    rows = [("a" * 100 + end, "%a" * 25 + "%b") for end in "cb"]
    db.stream("s", rows, schema="x STRING, p STRING")
    query = db.sql(f"SELECT x {like} {pattern} AS y FROM s")
    assert isinstance(query, ps.Query)
    assert query.collect().column("y").to_pylist() == [False, True]


@given(
    text=st.text(alphabet="aAb%_\\", max_size=8),
    pattern=st.text(alphabet="aAb%_\\", max_size=6),
)
@settings(deadline=None, max_examples=300)
def test_like_by_definition(text: str, pattern: str) -> None:
    def matches(text: str, parts: list[str]) -> bool:
        if not parts:
            return not text
        part, rest = parts[0], parts[1:]
        if part == "%":
            return any(matches(text[i:], rest) for i in range(len(text) + 1))
        if part == "_":
            return bool(text) and matches(text[1:], rest)
        letter = part[1:] if len(part) > 1 else part
        return text.startswith(letter) and matches(text[len(letter) :], rest)

    parts = re.findall(r"\\.|.", pattern)
    assert FUNCTIONS["like"](text, pattern) is matches(text, parts)
