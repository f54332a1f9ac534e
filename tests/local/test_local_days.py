"""Days and hours of local time as keys that progress: where clocks are put back or forward, at
night or at midnight, nothing is late that comes in order, and engines agree on what is."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.times import at_time_zone, highest_at_time_zone, lowest_at_time_zone
from tests.local.helpers import assert_same
from tests.reference.helpers import Row, Stream, ask

HOUR = 3_600_000_000
# What happens there, in UTC: an hour twice, at midnight even; an hour left out; half an hour twice;
# a day left out; a day twice, nearly
CHANGES = (
    ("Europe/Berlin", "2026-10-25 01:00"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("Europe/Berlin", "2026-03-29 01:00"),
    ("Australia/Lord_Howe", "2026-04-04 15:00"),
    ("Pacific/Apia", "2011-12-30 10:00"),
    ("Pacific/Kwajalein", "1969-09-30 13:00"),
)
NEAR = st.integers(-30 * 60, 30 * 60) | st.integers(-90, 90)  # minutes
TIMES = st.lists(st.tuples(st.sampled_from("ab"), NEAR), max_size=14)
UNITS = st.sampled_from(["minute", "hour", "day"])


def _moments(change: str, given_: list[tuple[str, int]]) -> list[Row]:
    begin = datetime.fromisoformat(change)
    return [(k, begin + timedelta(minutes=minutes)) for k, minutes in given_]


def _sql(unit: str, zone: str) -> str:
    key = f"date_trunc('{unit}', ts AT TIME ZONE '{zone}')"
    return f"SELECT {key} AS t, count(*) AS n FROM s GROUP BY t"


@settings(deadline=None, max_examples=40)
@given(change=st.sampled_from(CHANGES), times=TIMES, unit=UNITS)
def test_nothing_is_late_that_comes_in_order(
    change: tuple[str, str], times: list[tuple[str, int]], unit: str
) -> None:
    zone, at = change
    rows = sorted(_moments(at, times), key=lambda row: row[1])
    shown = [row[1].replace(tzinfo=UTC).astimezone(ZoneInfo(zone)) for row in rows]
    cut = {"minute": 16, "hour": 13, "day": 10}[unit]
    expected = Counter(each.isoformat(" ")[:cut] for each in shown)
    stream = Stream("k STRING, ts TIMESTAMP", rows, ps.progress("ts", ordered=True))
    query = ask(_sql(unit, zone), s=stream)
    found = {str(row["t"])[:cut]: row["n"] for row in query.collect().to_pylist()}
    assert (found, query.account.late) == (dict(expected), 0)


@settings(deadline=None, max_examples=40)
@given(
    change=st.sampled_from(CHANGES),
    times=TIMES,
    unit=UNITS,
    delay=st.sampled_from(["0 seconds", "40 minutes", "3 hours"]),
    late=st.sampled_from(["LATE SIDE", "LATE AMEND FOR 1 HOUR"]),
)
def test_engines_agree(
    change: tuple[str, str], times: list[tuple[str, int]], unit: str, delay: str, late: str
) -> None:
    zone, at = change
    progress = ps.progress("ts", delay=delay)
    stream = Stream("k STRING, ts TIMESTAMP", _moments(at, times), progress)
    assert_same(f"{_sql(unit, zone)} {late}", s=stream)
    window = f"[RANGE 1 HOUR, SLIDE 30 MINUTES, WA ts AT TIME ZONE '{zone}']"
    assert_same(f"SELECT count(*) AS n {window} FROM s {late}", s=stream)


@settings(deadline=None, max_examples=60)
@given(
    zone=st.sampled_from([zone for zone, _ in CHANGES] + ["UTC", "Africa/Casablanca"]),
    hours=st.integers(-100_000, 500_000),
    minutes=st.integers(0, 59),
)
def test_bounds_are_the_least_and_the_most_that_is_shown(
    zone: str, hours: int, minutes: int
) -> None:
    value = hours * HOUR + minutes * HOUR // 60
    near = range(0, 27 * HOUR, HOUR // 12)
    after = [at_time_zone(value + step, zone) for step in near]
    before = [at_time_zone(value - step, zone) for step in near]
    lowest, highest = lowest_at_time_zone(value, zone), highest_at_time_zone(value, zone)
    assert min(after) - HOUR // 12 < lowest <= min(after)
    assert max(before) <= highest < max(before) + HOUR // 12
