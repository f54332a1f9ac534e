"""The ends of the types: where a window, a bound or a length would leave its type, Penstock says so
in an error of its own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, tuples, value

INT64_MAX = 2**63 - 1
TYPES = {
    "INT": ("10", -(2**31), 2**31 - 1),
    "BIGINT": ("10", -(2**63), INT64_MAX),
    "TIMESTAMP": ("10 SECONDS", -(2**63), INT64_MAX),
    "DATE": ("10 DAYS", -(2**31), 2**31 - 1),
    "DECIMAL(38,0)": ("10", Decimal("-" + "9" * 38), Decimal("9" * 38)),
}
# INT windows have BIGINT bounds, which are wide enough.
NARROW = [name for name in TYPES if name != "INT"]
WINDOWS = [
    "RANGE {0}, SLIDE {0}, WA t",
    "RANGE ALL, SLIDE {0}, WA t",
    "RANGE {0}, SLIDE 1 ROW, WA t",
]


def windows_at(sql_type: str, window: str, t: Any) -> ps.Query:
    return ask(
        f"SELECT window_start, window_end, count(*) [{window.format(TYPES[sql_type][0])}] FROM s",
        s=Stream(f"t {sql_type}", [(t,)], ps.progress("t", ordered=True)),
    )


def test_int_windows_reach_beyond_int() -> None:
    """The bounds of INT windows are BIGINT, so that there is room."""
    window = "RANGE 10, SLIDE 10, WA t"
    high, low = (tuples(windows_at("INT", window, t).collect()) for t in (2**31 - 1, -(2**31)))
    assert high == [(2**31 - 8, 2**31 + 2, 1)]
    assert low == [(-(2**31) - 2, -(2**31) + 8, 1)]


@pytest.mark.parametrize("sql_type", NARROW)
@pytest.mark.parametrize("window", WINDOWS[:2])
def test_windows_that_end_beyond_the_type(sql_type: str, window: str) -> None:
    query = windows_at(sql_type, window, TYPES[sql_type][2])
    assert tuples(query.collect()) == []
    assert query.rejected.column("kind").to_pylist() == ["out of range"]


@pytest.mark.parametrize("sql_type", NARROW)
def test_windows_that_start_below_the_type(sql_type: str) -> None:
    query = windows_at(sql_type, WINDOWS[2], TYPES[sql_type][1])
    assert tuples(query.collect()) == []
    assert query.rejected.column("kind").to_pylist() == ["out of range"]


@pytest.mark.parametrize("sql_type", TYPES)
def test_a_bound_below_the_type_is_no_bound(sql_type: str) -> None:
    """The lowest value minus the delay is below every value: nothing is late."""
    length, low, _ = TYPES[sql_type]
    if sql_type.startswith("DECIMAL"):  # ticks have 64 bits
        low = Decimal(-(2**63))
    query = ask(
        "SELECT t FROM s GROUP BY t",
        s=Stream(f"t {sql_type}", [(low,), (low,)], ps.progress("t", delay=length)),
    )
    assert tuples(query.collect()) == [(low,)]
    assert query.account.late == 0


def test_a_change_beyond_the_type() -> None:
    """The left tuple leaves its window after the last INT there is."""
    rows = [(1, 2**31 - 1)]
    promise = ps.progress("t", ordered=True)
    query = ask(
        "SELECT * FROM l [RANGE 5, WA t] EXCEPT ON (k) r",
        l=Stream("k INT, t INT", rows, promise),
        r=Stream("k INT, t INT", [], promise),
    )
    assert tuples(query.collect()) == []
    assert query.rejected.column("kind").to_pylist() == ["out of range"]


def test_an_interval_beyond_the_type() -> None:
    with pytest.raises(ps.PenstockError):
        value("INTERVAL 10675199116730 DAYS")


@pytest.mark.parametrize("key", ["TRY_CAST(t AS INT)", "t + NULL"])
def test_keys_that_may_be_null(key: str) -> None:
    """Refused, because a NULL group would never be complete, or a group of its own."""
    rows = [(1,), (2**40,)]
    try:
        query = ask(
            f"SELECT {key} AS y FROM s GROUP BY {key}",
            s=Stream("t BIGINT", rows, ps.progress("t", ordered=True)),
        )
        assert (None,) in tuples(query.collect())
    except ps.PenstockError:
        pass


# --- what is late, in every type -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql_type", "length", "rows", "late"),
    [
        ("INT", "10", [(35,), (12,)], (12, 35, 1, 1)),
        ("BIGINT", "10", [(35,), (-12,)], (-12, 35, -2, -2)),
        ("TIMESTAMP", "10 MICROSECONDS", [(35,), (12,)], (12, 35, 1, 1)),
        ("DATE", "10 DAYS", [(35,), (12,)], (12, 35, 1, 1)),
        (
            *("DECIMAL(9,2)", "0.1", [(Decimal("0.35"),), (Decimal("0.12"),)]),
            (Decimal("0.12"), Decimal("0.35"), 1, 1),
        ),
    ],
)
def test_late_tuples(sql_type: str, length: str, rows: list[Row], late: Row) -> None:
    query = ask(
        f"SELECT count(*) [RANGE {length}, SLIDE {length}, WA t] FROM s",
        s=Stream(f"t {sql_type}", rows, ps.progress("t", ordered=True)),
    )
    assert tuples(query.late) == [late]


@pytest.mark.parametrize(
    ("sql_type", "length", "rows", "late"),
    [
        ("INT", "10", [(35,), (12,)], (12, 35, 12, 21)),
        ("TIMESTAMP", "10 MICROSECONDS", [(35,), (32,)], (32, 35, 32, 34)),
        ("DATE", "10 DAYS", [(35,), (32,)], (32, 35, 32, 34)),
        (
            *("DECIMAL(9,2)", "0.1", [(Decimal("0.35"),), (Decimal("0.32"),)]),
            (Decimal("0.32"), Decimal("0.35"), Decimal("0.32"), Decimal("0.34")),
        ),
    ],
)
def test_late_tuples_that_slide(sql_type: str, length: str, rows: list[Row], late: Row) -> None:
    """The ids of slide-by-tuple windows are values of the attribute."""
    query = ask(
        f"SELECT count(*) [RANGE {length}, SLIDE 1 ROW, WA t] FROM s",
        s=Stream(f"t {sql_type}", rows, ps.progress("t", ordered=True)),
    )
    assert tuples(query.late) == [late]


@pytest.mark.parametrize("keys", ["t", "t, date(t)", "date(t), t"])
def test_several_keys_that_progress(keys: str) -> None:
    """12 is below the bound 35, on the same day."""
    query = ask(
        f"SELECT {keys} FROM s GROUP BY {keys}",
        s=Stream("t TIMESTAMP", [(35,), (12,)], ps.progress("t", ordered=True)),
    )
    assert query.account.late == 1
    if not keys.startswith("date"):
        (late,) = query.late.to_pylist()  # a bound of another type has a column of its own
        assert tuples(query.late)[0][:2] == (12, 35)
        assert all(late[name] is None for name in late if name not in ("t", "late_bound"))


def test_the_bound_that_was_broken() -> None:
    """The day's bound is 1970-01-01, which 12 keeps; it broke the bound of t, which is no day."""
    query = ask(
        "SELECT date(t), t FROM s GROUP BY date(t), t",
        s=Stream("t TIMESTAMP", [(35,), (12,)], ps.progress("t", ordered=True)),
    )
    (row,) = tuples(query.late)
    types = {each.name: str(each.type) for each in query.late.schema}
    assert {types["late_bound"], types["late_bound_1"]} == {"date32[day]", "timestamp[us, tz=UTC]"}
    assert 35 in row


def test_far_apart_times() -> None:
    """Windows before the year 1 and after 9999 are windows like any other."""
    year = 31_556_952_000_000
    rows = [(-5000 * year,), (20_000 * year,)]
    query = ask(
        "SELECT window_start, window_end, count(*) [RANGE 1 HOUR, SLIDE 1 HOUR, WA t] FROM s",
        s=Stream("t TIMESTAMP", rows, ps.progress("t", ordered=True)),
    )
    hour = 3_600_000_000
    assert bag(tuples(query.collect())) == bag(
        [(t // hour * hour, t // hour * hour + hour, 1) for (t,) in rows]
    )
