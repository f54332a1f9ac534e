"""Joins of more than two streams, as pipelines: the answer is that of all combinations."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.engine.joining import CUT, PICKS, PROMISE, RESTART, check
from tests.reference.helpers import Stream

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(0, 2),
        st.integers(-9, 9) | st.sampled_from([-(2**31), 2**31 - 1]),
    ),
    max_size=7,
)
STREAM = st.builds(Stream, st.just("k STRING, n INT, t INT"), ROWS, PROMISE)
FROM = (
    "a [RANGE 5, WA t], b [RANGE 2, WA t], c [RANGE 0, WA t]",
    "a, b [RANGE TUMBLING 4, WA t], c",
    "a JOIN b ON b.t BETWEEN a.t AND a.t + 2 JOIN c ON c.t = b.t + 1",
    "a, b JOIN c ON c.t BETWEEN a.t - 1 AND a.t + 3 AND b.t - 2 <= c.t AND c.t < b.t + 2",
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
SELECT = (
    "SELECT a.k, a.n, a.t, b.k, b.n, b.t, c.k, c.n, c.t FROM {source} {where}",
    "SELECT count(*) AS c, sum(b.n) AS s [RANGE 6, SLIDE 3, WA {side}.t] FROM {source} {where}",
    "SELECT {side}.t, b.k, count(*) AS c FROM {source} {where} GROUP BY {side}.t, b.k",
)


@settings(deadline=None, max_examples=70)
@given(
    a=STREAM,
    b=STREAM,
    c=STREAM,
    select=st.sampled_from(SELECT),
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
    sql = f"{select.format(source=source, where=where, side=side)} {late}"
    check(sql, cut=cut, restart=restart, picks=picks, a=a, b=b, c=c)


@settings(deadline=None, max_examples=40)
@given(rows=ROWS, promise=PROMISE, cut=CUT, restart=RESTART, picks=PICKS)
def test_a_stream_four_times(
    rows: list[tuple[str, int, int]],
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
        s=Stream("k STRING, n INT, t INT", rows, promise),
    )
