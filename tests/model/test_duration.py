"""Lengths of time: every spelling of every unit, and texts there and back again."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.model.durations import (
    MICROSECONDS,
    format_duration,
    microseconds,
    parse_duration,
    unit,
)
from penstock.model.types import INT64_MAX, INT64_MIN

SPELLINGS = {
    "MICROSECOND": ["microsecond", "microseconds", "us", "micro", "micros", "microsec"],
    "MILLISECOND": ["millisecond", "milliseconds", "ms", "milli", "millis", "millisec"],
    "SECOND": ["second", "seconds", "s", "sec", "secs"],
    "MINUTE": ["minute", "minutes", "m", "min", "mins"],
    "HOUR": ["hour", "hours", "h", "hr", "hrs"],
    "DAY": ["day", "days", "d"],
    "WEEK": ["week", "weeks", "w"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_unit(name: str) -> None:
    for word in SPELLINGS[name]:
        for cased in (word, word.upper(), word.capitalize()):
            assert unit(cased) == name


def test_every_unit_is_spelt_here() -> None:
    assert set(SPELLINGS) == set(MICROSECONDS)


@pytest.mark.parametrize("word", ["month", "MONTHS", "mon", "quarter", "Years", "year"])
def test_units_without_a_fixed_length(word: str) -> None:
    with pytest.raises(PenstockError, match="has no fixed length") as caught:
        unit(word)
    assert caught.value.hint == "give the length in DAYS"


def test_a_unit_that_nobody_knows() -> None:
    with pytest.raises(PenstockError, match="'secnods' is not a unit of time") as caught:
        unit("secnods")
    assert caught.value.hint == "SECONDS"
    with pytest.raises(PenstockError, match="is not a unit of time") as caught:
        unit("x")
    assert caught.value.hint is None


def test_fractions_of_units() -> None:
    assert microseconds(Decimal("0.5"), "ms") == 500
    assert microseconds(Decimal("-1.5"), "minutes") == -90_000_000
    with pytest.raises(PenstockError, match="not a whole number of microseconds"):
        microseconds(Decimal("0.5"), "us")


@pytest.mark.parametrize(
    "amount", ["1.0000000000000000000000000001", "100000000000000000000000.0000001"]
)
def test_fractions_far_behind_the_point_are_refused_too(amount: str) -> None:
    with pytest.raises(PenstockError, match="not a whole number of microseconds"):
        microseconds(Decimal(amount), "seconds")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", 5_000_000),
        ("5seconds", 5_000_000),
        ("  1h  30min ", 5_400_000_000),
        ("1 week 1 day", 691_200_000_000),
        ("0.25 s", 250_000),
        ("-1 hour", -3_600_000_000),
        ("+1 ms", 1_000),
        ("0 days", 0),
    ],
)
def test_parse_duration(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "5", "seconds", "5 5 s", "1h, 2min", "s5", "- 1 s", "1 s x", ".5 s"]
)
def test_texts_that_are_not_a_length(text: str) -> None:
    with pytest.raises(PenstockError, match="is not a length of time"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1 fortnight", "1 month", "1 hour 2 parsecs", "1e3 s"])
def test_texts_with_a_unit_that_is_none(text: str) -> None:
    with pytest.raises(PenstockError, match=r"unit of time|fixed length"):
        parse_duration(text)


@given(st.integers(INT64_MIN, INT64_MAX))
def test_format_and_parse_are_inverse(length: int) -> None:
    assert parse_duration(format_duration(length)) == length


@given(st.sampled_from(sorted(MICROSECONDS)), st.integers(-10_000, 10_000))
def test_format_takes_the_largest_unit_that_divides(name: str, amount: int) -> None:
    length = amount * MICROSECONDS[name]
    words = format_duration(length).split()
    shown = MICROSECONDS[words[1].removesuffix("S")]
    larger = [size for size in MICROSECONDS.values() if size > shown]
    assert int(words[0]) * shown == length
    assert length == 0 or all(length % size for size in larger)


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0 SECONDS"), (1, "1 MICROSECOND"), (7 * 86_400_000_000, "1 WEEK"), (2_000, None)],
)
def test_format_counts_properly(length: int, text: str | None) -> None:
    assert format_duration(length) == (text or "2 MILLISECONDS")
