"""The algorithms of sliding windows go on from what they saved as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.grouping import folding as key_expiry
from penstock.kernel.operator import Operator
from penstock.kernel.windows.adapt_wid import AdaptWid, Thresholds
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.two_level import LazyFlush, SlowFlush, TwoLevel
from penstock.kernel.windows.wid import Wid
from penstock.plan.nodes.aggregation import WindowAggregate
from tests.kernel.algorithms_helper import CUTS, Stream, defined, outcome, streams
from tests.kernel.restarting import Restarting

ALGORITHMS: dict[str, Callable[[WindowAggregate], Operator]] = {
    "paned": Paned,
    "wid": Wid,
    "buffering": Buffering,
    "two levels": lambda node: TwoLevel(node, 2, SlowFlush(1, 3)),
    "two levels, lazy": lambda node: TwoLevel(node, 64, LazyFlush(2)),
    "adaptive": AdaptWid,
    "adaptive, eager": lambda node: AdaptWid(node, Thresholds(0, 0)),
    "adaptive, lazy": lambda node: AdaptWid(node, Thresholds(float("inf"), float("inf"))),
    "adaptive, early": lambda node: AdaptWid(node, Thresholds(0.2, 0.15)),
}
each_algorithm = pytest.mark.parametrize("make", ALGORITHMS.values(), ids=ALGORITHMS.keys())


@each_algorithm
@pytest.mark.parametrize("every", [1, 3])
@settings(deadline=None, max_examples=20)
@given(stream=streams())
def test_restart_changes_nothing(
    make: Callable[[WindowAggregate], Operator], every: int, stream: Stream
) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        assert outcome(Restarting(lambda node=node: make(node), every), node) == expected  # type: ignore[misc]


@each_algorithm
@settings(deadline=None, max_examples=20)
@given(stream=streams())
def test_forgetting_keys_changes_nothing(
    make: Callable[[WindowAggregate], Operator], stream: Stream
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_expiry, "MANY", 1)
        for cut in (1, 7):
            node = stream.node(cut)
            expected = defined(stream.node())
            assert outcome(make(node), node) == expected
            assert outcome(Restarting(lambda node=node: make(node), 2), node) == expected  # type: ignore[misc]


@each_algorithm
def test_groups_of_windows_before_number_zero_are_forgotten_whole(
    make: Callable[[WindowAggregate], Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_expiry, "MANY", 1)
    times = (-1000, -1, 0, 0, 0, 500, 500)
    rows: list[tuple[object, ...]] = [("a", None, None, time) for time in times]
    stream = Stream(rows, 1, 2, 1, 0, "count(*) AS n, avg(x) AS m", "", None)
    node = stream.node(1)
    assert outcome(make(node), node) == defined(stream.node())


@settings(deadline=None, max_examples=30)
@given(stream=streams(), slack=st.integers(0, 20), consistent=st.booleans())
def test_slack_goes_on(stream: Stream, slack: int, consistent: bool) -> None:
    for cut in CUTS:
        node = stream.node(cut)
        expected = outcome(Buffering(node, slack, consistent), node)
        again = Restarting(lambda node=node: Buffering(node, slack, consistent), 2)  # type: ignore[misc]
        assert outcome(again, node) == expected
