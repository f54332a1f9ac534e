"""Functions and operators on times, against `datetime` where it reaches and beyond."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Stream, ask, examples, tuples, value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
PERIOD = 146_097 * DAY  # the calendar repeats every 400 years, a whole number of weeks
MAX = 2**63 - 1

TRUNCATED = {
    "microsecond": lambda t: t,
    "millisecond": lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000),
    "second": lambda t: t.replace(microsecond=0),
    "minute": lambda t: t.replace(second=0, microsecond=0),
    "hour": lambda t: t.replace(minute=0, second=0, microsecond=0),
    "day": lambda t: midnight(t),
    "week": lambda t: midnight(t) - timedelta(days=t.weekday()),
    "month": lambda t: midnight(t).replace(day=1),
    "quarter": lambda t: midnight(t).replace(day=1, month=(t.month - 1) // 3 * 3 + 1),
    "year": lambda t: midnight(t).replace(day=1, month=1),
}
PARTS = {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month - 1) // 3 + 1,
    "month": lambda t: t.month,
    "week": lambda t: t.isocalendar().week,
    "day": lambda t: t.day,
    "isodow": lambda t: t.isoweekday(),
    "dayofyear": lambda t: t.timetuple().tm_yday,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "millisecond": lambda t: t.microsecond // 1000,
    "microsecond": lambda t: t.microsecond,
    "epoch": lambda t: micros(t) // SECOND,
}
NAMED = [*PARTS][:10]  # those that are functions of their own as well


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


MOMENTS = st.datetimes(
    datetime(1, 1, 8),
    datetime(9999, 12, 31),
    timezones=st.just(UTC),  # its week is in year 1, too
)


@examples
@given(moments=st.lists(MOMENTS, min_size=1, max_size=10), periods=st.integers(-600, 500))
def test_date_trunc(moments: list[datetime], periods: int) -> None:
    """Shifted by whole periods of the calendar it goes far before year 1 and after 9999."""
    shift = periods * PERIOD
    calls = ", ".join(f"date_trunc('{unit}', t) AS {unit}" for unit in TRUNCATED)
    rows = [(micros(moment) + shift,) for moment in moments]
    found = tuples(ask(f"SELECT {calls} FROM s", s=Stream("t TIMESTAMP", rows)).collect())
    assert found == [
        tuple(micros(truncated(moment)) + shift for truncated in TRUNCATED.values())
        for moment in moments
    ]


@examples
@given(moments=st.lists(MOMENTS, min_size=1, max_size=10), periods=st.integers(-600, 500))
def test_date_part(moments: list[datetime], periods: int) -> None:
    """Parts repeat with the calendar, except the year and the seconds since 1970."""
    calls = [f"date_part('{part}', t)" for part in PARTS] + [f"{part}(t)" for part in NAMED]
    rows = [(micros(moment) + periods * PERIOD,) for moment in moments]
    query = ask(f"SELECT {', '.join(calls)} FROM s", s=Stream("t TIMESTAMP", rows))
    for row, moment in zip(tuples(query.collect()), moments, strict=True):
        expected = {part: of(moment) for part, of in PARTS.items()}
        expected["year"] += 400 * periods
        expected["epoch"] += periods * PERIOD // SECOND
        assert row == (*expected.values(), *(expected[part] for part in NAMED))


@examples
@given(moment=MOMENTS)
def test_dates(moment: datetime) -> None:
    """A DATE is its midnight."""
    day = {"x": ("DATE", moment.date())}
    start = midnight(moment)
    for unit in ("day", "week", "month", "quarter", "year"):
        expected = (micros(TRUNCATED[unit](start))) // DAY
        assert value(f"date_trunc('{unit}', x)", **day) == expected
    for part in ("year", "week", "dayofyear", "hour", "epoch"):
        assert value(f"date_part('{part}', x)", **day) == PARTS[part](start)
    assert value("date(x)", x=("TIMESTAMP", moment)) == micros(start) // DAY


EXAMPLES: list[tuple[str, Any, Any]] = [
    ("epoch(x)", -1, -1),
    ("epoch(x)", -SECOND, -1),
    ("epoch_ms(x)", -1, -1),
    ("epoch_us(x)", -1, -1),
    ("unix_seconds(x)", 5 * SECOND, 5),
    ("unix_millis(x)", 5 * SECOND, 5_000),
    ("unix_micros(x)", MAX, MAX),
    ("date(x)", -1, -1),
    ("to_date(x)", DAY, 1),
    ("second(x)", -1, 59),
    ("hour(x)", -1, 23),
    ("year(x)", -1, 1969),
    ("year(x)", MAX, 294247),
    ("extract(month FROM x)", 0, 1),
    ("extract(isodow FROM x)", 0, 4),
    ("datepart('day', x)", 0, 1),
    ("trunc('day', x)", -1, -DAY),
    ("date_trunc('DAY', x)", DAY + 1, DAY),
    ("date_trunc('year', x)", MAX, 9_223_371_244_800_000_000),
    ("x + INTERVAL 1 MINUTE", 0, MINUTE),
    ("x - INTERVAL 1 MINUTE", 0, -MINUTE),
    ("INTERVAL '90 seconds' + x", 0, 90 * SECOND),
    ("x + 2 * INTERVAL 1 HOUR", 0, 2 * HOUR),
    ("x + INTERVAL 1 HOUR * 2", 0, 2 * HOUR),
    ("x + (INTERVAL 1 HOUR - INTERVAL 1 MINUTE)", 0, 59 * MINUTE),
    ("x + -(INTERVAL 1 HOUR)", 0, -HOUR),
    ("x - TIMESTAMP '1970-01-01'", -5, -5),
    ("x < TIMESTAMP '1970-01-01'", -5, True),
    ("x < '1970-01-01'", -5, True),
    ("x = DATE '1970-01-01'", 0, True),
    ("x > DATE '1970-01-01'", 1, True),
    ("x IN ('1970-01-01', '1970-01-02')", DAY, True),
    ("x BETWEEN '1969-12-31' AND '1970-01-01'", -1, True),
    ("x + NULL", 0, None),
    ("greatest(x, TIMESTAMP '1970-01-01')", -1, 0),
    ("CASE WHEN x < '1970-01-01' THEN x END", -1, -1),
]


@pytest.mark.parametrize(("expression", "x", "expected"), EXAMPLES, ids=[e for e, *_ in EXAMPLES])
def test_timestamps(expression: str, x: int, expected: Any) -> None:
    assert value(expression, x=("TIMESTAMP", x)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x + 1", 1),
        ("x - 1", -1),
        ("x - DATE '1969-12-30'", 2),
        ("x + INTERVAL 1 HOUR", HOUR),
        ("x - INTERVAL 1 HOUR", -HOUR),
        ("x - TIMESTAMP '1970-01-01 00:00:01'", -SECOND),
        ("x = TIMESTAMP '1970-01-01'", True),
        ("epoch_us(x)", 0),
    ],
)
def test_date_arithmetic(expression: str, expected: Any) -> None:
    assert value(expression, x=("DATE", date(1970, 1, 1))) == expected


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("timestamp_seconds(x)", -1, -SECOND),
        ("timestamp_millis(x)", -1, -1_000),
        ("timestamp_micros(x)", -1, -1),
        ("timestamp_micros(x)", -(2**63), -(2**63)),
    ],
)
def test_from_numbers(expression: str, x: int, expected: int) -> None:
    assert value(expression, x=("BIGINT", x)) == expected


@pytest.mark.parametrize(
    ("expression", "sql_type", "x"),
    [
        ("x + INTERVAL 1 MICROSECOND", "TIMESTAMP", MAX),
        ("x - INTERVAL 1 MICROSECOND", "TIMESTAMP", -MAX - 1),
        ("x - TIMESTAMP '1969-12-31'", "TIMESTAMP", MAX),
        ("x + INTERVAL 1 HOUR", "DATE", 2**31 - 1),
        ("x + 3000000000", "DATE", 0),
        ("x - 1", "DATE", -(2**31)),
        ("date_trunc('week', x)", "TIMESTAMP", -MAX),
        ("date_trunc('year', x)", "DATE", -(2**31)),
    ],
)
def test_out_of_range_is_an_error(expression: str, sql_type: str, x: int) -> None:
    with pytest.raises(ps.RunError):
        value(expression, x=(sql_type, x))


@pytest.mark.parametrize(
    "expression",
    ["x + 1", "x + x", "x * 2", "x < 1", "-x", "x - '1 hour'", "hour(1)"],
)
def test_refused(expression: str) -> None:
    with pytest.raises(ps.PenstockError):
        value(expression, x=("TIMESTAMP", 0))
