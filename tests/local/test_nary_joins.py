"""Joins of more than two streams, as pipelines: the answer is that of all combinations."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.local.joining import (
    CUT,
    FEW_ROWS,
    PICKS,
    PROMISE,
    RESTART,
    SCHEMA,
    SELECT_OF_THREE,
    SHORT,
    THREE,
    all_columns,
    check,
)
from tests.reference.helpers import Row, Stream

FROM = (
    *THREE,
    "a JOIN b ON b.t > a.t AND b.t <= a.t + 9 JOIN c ON c.t - b.t = 1 AND a.t + 4 <= c.t"
    " AND c.t <= a.t + 5",
)
WHERE = (
    "",
    "WHERE a.k = b.k AND b.k = c.k",
    "WHERE a.k = c.k AND b.n = c.n",
    "WHERE b.k = c.k AND a.n < c.n",
    "WHERE a.k = b.k AND a.n + b.n = c.n AND a.n < 2",
)


@settings(deadline=None, max_examples=70)
@given(
    a=SHORT,
    b=SHORT,
    c=SHORT,
    select=st.sampled_from(SELECT_OF_THREE),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    side=st.sampled_from("abc"),
    late=st.sampled_from(["LATE SIDE", "LATE AMEND FOR 3"]),
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_three_streams(
    a: Stream,
    b: Stream,
    c: Stream,
    select: str,
    source: str,
    where: str,
    side: str,
    late: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    named = select.format(columns=all_columns("abc"), source=source, where=where, side=side)
    check(f"{named} {late}", cut=cut, restart=restart, picks=picks, a=a, b=b, c=c)


@settings(deadline=None, max_examples=40)
@given(rows=FEW_ROWS, promise=PROMISE, cut=CUT, restart=RESTART, picks=PICKS)
def test_a_stream_four_times(
    rows: list[Row],
    promise: ps.Progress,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    windows = ", ".join(f"s AS {name} [RANGE 2, WA t]" for name in "abcd")
    sql = (
        f"SELECT a.n, b.n, c.n, d.n, d.t FROM {windows}"
        " WHERE a.k = c.k AND b.n = d.n AND d.k = a.k LATE SIDE"
    )
    check(
        sql,
        cut=cut,
        restart=restart,
        picks=picks,
        s=Stream(SCHEMA, rows, promise),
    )
