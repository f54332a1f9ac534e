"""Times written and read by formats: as DuckDB does it, and back again."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.functions.time_formats import format_time, read_time
from penstock.sql.binder.time_functions import of_c
from tests.functions.helpers import answer

codes = st.lists(st.sampled_from("YmdHIMSfgpaAbBjy"), min_size=1, max_size=6, unique=True)
moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))


def micros(moment: datetime) -> int:
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000


@given(codes=codes, moment=moments, microsecond=st.integers(0, 999_999))
@settings(deadline=None, max_examples=200)
def test_written_like_duckdb(codes: list[str], moment: datetime, microsecond: int) -> None:
    moment = moment.replace(microsecond=microsecond)
    pattern = " it's ".join(f"%{each}" for each in codes)
    row = duckdb.execute("SELECT strftime(?, ?)", [moment.replace(tzinfo=None), pattern]).fetchone()
    value = micros(moment.replace(microsecond=0)) + microsecond
    assert row is not None
    assert format_time(value, of_c(pattern)) == row[0]


FULL = [
    "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "d/M/y h:m:s a SSSSSS",
    "ddMMMyyyyHHmmssSSSSSS",
    "MMMM d, yyyy 'at' hh:mm:ss.SSSSSS a",
    "SSSSSSSSS ss mm HH dd MM yyyy XXX",
]


@pytest.mark.parametrize("pattern", FULL)
@given(value=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
@settings(deadline=None, max_examples=50)
def test_what_is_written_can_be_read(pattern: str, value: int) -> None:
    assert read_time(format_time(value, pattern), pattern) == value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("date_format(t, 'yyyy-MM-dd HH:mm')", "2026-01-31 12:30"),
        ("date_format(d, 'EEEE')", "Saturday"),
        ("to_char(t, 'YYYY-MM-DD HH24:MI:SS.MS')", "2026-01-31 12:30:00.000"),
        ("to_char(t, 'yyyy-mm-dd hh24:mi:ss.ff3')", "2026-01-31 12:30:00.000"),
        ("to_char(t, 'YYYYMMDD TZH:TZM')", "20260131 +00:00"),
        ("to_char(t, 'tzh tzm OF')", "+00 00 +00"),
        ("to_char(t, 'FMDay, FMDD Mon YY \"at\" HH12 AM')", "Saturday, 31 Jan 26 at 12 PM"),
        ("strftime(t, '%Y%m%d %-I%p')", "20260131 12PM"),
        ("CAST(to_date('31.01.2026', 'dd.MM.yyyy') = d AS STRING)", "true"),
        ("CAST(to_timestamp('31/Jan/2026 12:30 pm', 'dd/MMM/yyyy hh:mm a') = t AS STRING)", "true"),
        (
            "CAST(to_timestamp('2026-01-31T13:30+01', 'yyyy-MM-dd''T''HH:mmX') = t AS STRING)",
            "true",
        ),
        ("CAST(to_timestamp('2026-01-31 12:30', 'YYYY-MM-DD HH24:MI') = t AS STRING)", "true"),
        ("CAST(strptime('31.1.26 12:30', '%-d.%-m.%y %H:%M') = t AS STRING)", "true"),
        ("CAST(to_timestamp('2026-01-31 12:30:00') = t AS STRING)", "true"),
        ("CAST(to_timestamp(1769862600) = t AS STRING)", "true"),
        ("CAST(to_date('2026-01-31') = d AS STRING)", "true"),
        ("try_to_timestamp('29.02.2026', 'dd.MM.yyyy')", None),
        ("try_to_timestamp('31.01.2026x', 'dd.MM.yyyy')", None),
        ("try_strptime('25', '%H')", None),
    ],
)
def test_spellings(expression: str, expected: object) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("date_format(t, 'yyyy-bb')", "bb stands for nothing"),
        ("date_format(t, 'yyyy ''')", "a quote is not closed"),
        ("date_format(s, 'yyyy')", "argument 1 of date_format is a STRING"),
        ("to_char(x, '999')", "argument 1 of to_char is a BIGINT"),
        ("to_char(t, 'YYYY-XX')", "X stands for nothing"),
        ("to_char(t, 'MON')", "MON writes in other letters than Mon"),
        ("to_date(s, 'yyyy-mm-dd')", "mm are minutes"),
        ("to_char(t, s)", "the format of to_char is a constant"),
        ("strftime(t, '%Q')", "%Q stands for nothing"),
        ("to_timestamp(s, 'EEEE')", "EEEE cannot be read"),
        ("to_timestamp(s, 'dd dd')", "dd cannot be read"),
        ("to_timestamp(s, 'yyyy')", "'abc' is not written as yyyy"),
        ("to_timestamp(f)", "to_timestamp takes a text or whole seconds"),
    ],
)
def test_what_is_refused(expression: str, message: str) -> None:
    with pytest.raises(ps.PenstockError) as caught:
        answer(expression)
    assert message in str(caught.value)
    assert caught.value.span is not None
