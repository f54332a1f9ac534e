from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.windows.buffering import Buffering
from tests.kernel.algorithms_helper import (
    CUTS,
    Outcome,
    Row,
    Stream,
    defined,
    items,
    outcome,
    streams,
)


@given(streams())
@settings(max_examples=40, deadline=None)
def test_with_progress_answers_are_the_defined_ones(stream: Stream) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        operator = Buffering(node)
        assert outcome(operator, node) == expected
        assert not operator.buffer


@given(streams(covered=True), st.booleans())
@settings(max_examples=30, deadline=None)
def test_slack_that_covers_the_disorder_is_exact(stream: Stream, consistent: bool) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        assert outcome(Buffering(node, 2000, consistent), node) == expected


@given(streams(covered=True), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_generous_slack_is_a_delay_of_the_source(stream: Stream, slack: int) -> None:
    """What slack drops is what a promise of that DELAY makes late, whatever the cut."""
    promised = Stream(
        stream.rows,
        stream.range,
        stream.slide,
        stream.origin,
        slack,
        stream.aggregates,
        stream.keys,
    )
    expected = defined(promised.node())
    for cut in CUTS:
        node = stream.node(cut)
        assert outcome(Buffering(node, slack), node) == expected


@given(streams(covered=True), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_consistent_slack_leaves_out_late_tuples_altogether(stream: Stream, slack: int) -> None:
    in_time: list[Row] = []
    highest = None
    for row in stream.rows:
        tick = row[3]
        x = tick - stream.origin
        wids = range(x // stream.slide, (x + stream.range) // stream.slide)
        end = stream.origin + (wids.start + 1) * stream.slide
        if not wids or highest is None or end > highest - slack:
            in_time.append(row)
        highest = tick if highest is None else max(highest, tick)
    kept = Stream(
        in_time,
        stream.range,
        stream.slide,
        stream.origin,
        5000,
        stream.aggregates,
        stream.keys,
    )
    expected = defined(kept.node()).rows
    for cut in CUTS:
        node = stream.node(cut)
        found = outcome(Buffering(node, slack, consistent=True), node)
        assert Outcome(found.rows) == Outcome(expected)
        assert len(found.late) == len(stream.rows) - len(in_time)


def test_too_little_slack_loses_tuples() -> None:
    rows: list[Row] = [("a", 1, 1.0, t) for t in (0, 30, 17, 31)]
    node = Stream(rows, 20, 5, 0, 100, "count(*) AS n", "").node()
    exact = {row[0]: row[3] for row in defined(node).rows}
    counts = {}
    for consistent in (False, True):
        found = outcome(Buffering(node, 0, consistent), node)
        counts[consistent] = {row[0]: row[3] for row in found.rows}
        assert len(found.late) == 1
    assert counts[False][6] == 3  # 17 missed windows 3 to 5, and counts in window 6
    assert counts[True][6] == 2
    assert [exact[wid] for wid in (3, 4, 5, 6)] == [2, 1, 1, 3]
    assert counts[False].get(5) is None


def test_buffer_keeps_only_what_open_windows_need() -> None:
    rows: list[Row] = [("a", 1, 1.0, t) for t in range(1000)]
    for aggregates in ("sum(v) AS s", "max(v) AS m"):
        node = Stream(rows, 20, 5, 0, 0, aggregates, "k").node(10)
        operator = Buffering(node, slack=3)
        most = 0
        for item in items(node):
            if isinstance(item, Progress):
                continue
            assert isinstance(item, Batch)
            list(operator.on_batch(0, item))
            most = max(most, sum(map(len, operator.buffer)))
        assert most <= 20 + 5 + 3 + 10
