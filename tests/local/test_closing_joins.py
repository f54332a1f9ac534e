"""A final run of a join: a promise far enough beyond the highest tuple closes what is open."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.final_bounds import closing_reach
from penstock.plan.nodes.join import JoinKind
from tests.local.joining import FROM, STREAM, WHERE, planned
from tests.local.test_closing import closed, ended
from tests.reference.helpers import Stream, bag, tuples

KINDS = st.sampled_from([kind for kind in JoinKind if kind is not JoinKind.INNER])


@settings(deadline=None, max_examples=80)
@given(
    left=STREAM,
    right=STREAM,
    kind=KINDS,
    source=st.sampled_from(FROM),
    where=st.sampled_from(WHERE),
)
def test_tuples_without_a_partner_leave(
    left: Stream, right: Stream, kind: JoinKind, source: str, where: str
) -> None:
    query = planned(f"SELECT l.n, l.t FROM {source} {where}", kind, 7, l=left, r=right)
    assert closing_reach(query) is not None
    table, run = closed(query)
    assert bag(tuples(table)) == bag(tuples(ended(query)))
    if "ended" not in run.closed.values():  # as long as there is a value to promise
        assert run.open_results(run.outlets[0]).count == 0


@pytest.mark.parametrize(
    ("source", "kind", "reach"),
    [
        ("l [RANGE 5, WA t], r [RANGE 2, WA t]", JoinKind.LEFT, 6),
        ("l [RANGE 5, WA t], r [RANGE 2, WA t]", JoinKind.INNER, 5),
        ("l [RANGE 2, WA t], r [RANGE 7, WA t]", JoinKind.FULL, 8),
        ("l, r [RANGE TUMBLING 4, WA t]", JoinKind.ANTI, 4),
        ("l JOIN r ON r.t > l.t + 2 AND r.t <= l.t + 6", JoinKind.LEFT, 7),
    ],
)
def test_how_far(source: str, kind: JoinKind, reach: int) -> None:
    stream = Stream("n INT, t INT", [(1, 2)], ps.progress("t", delay=1))
    query = planned(f"SELECT l.n, l.t FROM {source}", kind, None, l=stream, r=stream)
    assert closing_reach(query) == reach
    above = f"SELECT count(*) AS c [RANGE 10, SLIDE 10, WA l.t] FROM {source}"
    if kind is JoinKind.INNER:
        assert closing_reach(planned(above, kind, None, l=stream, r=stream)) == reach + 10
