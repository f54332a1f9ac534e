"""Joins on the local engine: the reference's rows and late tuples, however they are cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.joins import JoinKind
from tests.engine.joining import CUT, FROM, PICKS, RESTART, STREAM, WHERE, check
from tests.reference.helpers import Stream

PAIRS = (
    "SELECT l.k, l.x, l.n, l.t, r.k, r.x, r.n, r.t FROM {source} {where}",
    "SELECT count(*) AS c, sum(r.n) AS s [RANGE 6, SLIDE 3, WA {side}.t] FROM {source} {where}",
    "SELECT l.t, r.t, count(*) AS c FROM {source} {where} GROUP BY l.t, r.t",
)
LEFT = (
    "SELECT l.k, l.x, l.n, l.t FROM {source} {where}",
    "SELECT count(*) AS c, sum(l.n) AS s [RANGE 6, SLIDE 3, WA l.t] FROM {source} {where}",
)
LATE = st.sampled_from(["LATE SIDE", "LATE SIDE", "LATE AMEND", "LATE AMEND FOR 3"])


@settings(deadline=None, max_examples=100)
@given(
    left=STREAM,
    right=STREAM,
    select=st.sampled_from(PAIRS),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    side=st.sampled_from("lr"),
    late=LATE,
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_pairs(
    left: Stream,
    right: Stream,
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
    check(sql, cut=cut, restart=restart, picks=picks, l=left, r=right)


@settings(deadline=None, max_examples=100)
@given(
    left=STREAM,
    right=STREAM,
    kind=st.sampled_from([JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL]),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    late=LATE,
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_tuples_without_a_partner(
    left: Stream,
    right: Stream,
    kind: JoinKind,
    source: str,
    where: str,
    late: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    sql = f"{PAIRS[0].format(source=source, where=where)} {late}"
    check(sql, kind, cut, restart, picks, l=left, r=right)


@settings(deadline=None, max_examples=100)
@given(
    left=STREAM,
    right=STREAM,
    kind=st.sampled_from([JoinKind.SEMI, JoinKind.ANTI]),
    select=st.sampled_from(LEFT),
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
    late=LATE,
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_left_tuples_alone(
    left: Stream,
    right: Stream,
    kind: JoinKind,
    select: str,
    source: str,
    where: str,
    late: str,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    sql = f"{select.format(source=source, where=where)} {late}"
    check(sql, kind, cut, restart, picks, l=left, r=right)
