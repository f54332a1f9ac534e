"""Joins on the local engine: the reference's rows and late tuples, however they are cut."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.nodes.join import JoinKind
from tests.local.joining import CUT, FROM, PICKS, RESTART, SCHEMA, STREAM, WHERE, check
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


@pytest.mark.parametrize(
    ("sql_type", "step", "window"),
    [
        ("TIMESTAMP", 500_000, "RANGE 2 SECONDS"),
        ("DATE", 1, "RANGE 3 DAYS"),
        ("BIGINT", 2**60, "RANGE 1152921504606846976"),
        ("DECIMAL(9,2)", Decimal("0.25"), "RANGE 0.75"),
    ],
)
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.FULL])
def test_types_of_time(sql_type: str, step: Any, window: str, kind: JoinKind) -> None:
    schema = f"n INT, t {sql_type}"
    streams = {
        name: Stream(
            schema,
            [(n, (n * factor % 15 - 7) * step) for n in range(15)],
            ps.progress("t", delay=_delay(sql_type, step)),
        )
        for name, factor in (("l", 4), ("r", 11))
    }
    for source in (f"l [{window}, WA t], r [{window}, WA t]", "l, r [RANGE TUMBLING {}, WA t]"):
        source = source.format(window.removeprefix("RANGE "))
        sql = f"SELECT l.n, l.t, r.n, r.t FROM {source} WHERE l.n % 3 = r.n % 3 LATE SIDE"
        check(sql, kind, 2, 3, (0, 1), **streams)


def _delay(sql_type: str, step: Any) -> Any:
    lengths = {"TIMESTAMP": "4 seconds", "DATE": "8 days"}
    return lengths.get(sql_type, step * 7)


def test_early_answers_over_pairs() -> None:
    rows = [("a", 1.0, n, n) for n in range(20)]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=2))
    sql = (
        "SELECT count(*) AS c [RANGE 6, SLIDE 3, WA l.t] FROM l [RANGE 5, WA t], r [RANGE 2, WA t]"
        " WHERE l.k = r.k EMIT EARLY EVERY 1 SECOND"
    )
    check(sql, JoinKind.INNER, 1, None, (0, 1), l=stream, r=stream)
