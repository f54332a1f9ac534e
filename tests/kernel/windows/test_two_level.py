from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PlanError
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.operator import Progress
from penstock.kernel.windows.two_level import LazyFlush, LowLevel, PartialRows, SlowFlush, TwoLevel
from tests.kernel.algorithms_helper import (
    CUTS,
    Row,
    Stream,
    defined,
    items,
    outcome,
    streams,
)

FLUSHES = st.builds(LazyFlush, st.integers(0, 3)) | st.builds(
    SlowFlush, st.integers(0, 3), st.integers(1, 5)
)


@given(streams(), st.sampled_from([1, 2, 3, 64]), FLUSHES)
@settings(max_examples=40, deadline=None)
def test_answers_are_the_defined_ones(stream: Stream, slots: int, flush: LazyFlush) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        operator = TwoLevel(node, slots, flush)
        assert outcome(operator, node) == expected
        assert operator.low.lowest() is None


@given(streams(tumbling=True), st.sampled_from([1, 2, 5]), FLUSHES)
@settings(max_examples=30, deadline=None)
def test_tumbling_answers_are_the_defined_ones(
    stream: Stream, slots: int, flush: LazyFlush
) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        assert outcome(TwoLevel(node, slots, flush), node) == expected


class Feed:
    """A low level of count(*) by k, fed with (key, pane) pairs."""

    def __init__(self, slots: int, flush: LazyFlush) -> None:
        node = Stream([("a", 1, 1.0, 0)], 1, 1, 0, 0, "count(*) AS n", "k").node()
        self.folder = Folder(node.keys, node.aggregates, node.input.schema)
        self.low = LowLevel(node, slots, flush, self.folder)
        self.schema = node.input.schema.arrow

    def __call__(self, *pairs: tuple[str, int]) -> Counter[tuple[int, int]]:
        keys = [key for key, _ in pairs]
        panes = np.array([pane for _, pane in pairs])
        n = len(keys)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip((keys, [1] * n, [1.0] * n, panes), self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return counted(self.low.take_in(self.folder.rows(batch, panes), panes))


def counted(flushed: object) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for rows in flushed:  # type: ignore[attr-defined]
        assert isinstance(rows, PartialRows)
        counts = rows.partials.rows.rows.tolist()
        for pane, code, count in zip(rows.panes.tolist(), rows.codes.tolist(), counts, strict=True):
            found[pane, code] += count
    return found


def test_a_collision_puts_out_what_was_there() -> None:
    feed = Feed(1, LazyFlush(5))
    assert feed(("a", 0), ("a", 0)) == {}
    assert feed(("a", 0)) == {}
    assert feed(("b", 0)) == {(0, 0): 3}
    assert feed(("b", 1)) == {(0, 1): 1}  # its own group, of another pane
    assert feed.low.collisions == 2


def test_within_a_batch_first_appearance_decides() -> None:
    feed = Feed(1, LazyFlush(5))
    assert feed(("a", 0), ("b", 0), ("a", 0), ("c", 0)) == {(0, 0): 2, (0, 1): 1}
    assert feed.low.code.tolist() == [2]
    # what is there comes first, though its row is the last of the batch
    assert feed(("a", 0), ("c", 0)) == {(0, 2): 2}
    assert feed.low.code.tolist() == [0]


def test_lazy_flush_is_at_most_so_many_panes_late() -> None:
    feed = Feed(1024, LazyFlush(2))
    assert feed(("a", 0), ("b", 0)) == {}
    assert feed(("c", 1)) == feed(("c", 2)) - Counter({(1, 2): 1}) == {}
    assert feed(("d", 3)) == {(0, 0): 1, (0, 1): 1}
    assert feed.low.lowest() == 2
    assert counted(feed.low.advance(5)) == {(2, 2): 1}
    assert counted(feed.low.advance(float("inf"))) == {(3, 3): 1}


def test_slow_flush_puts_out_one_for_so_many_tuples() -> None:
    feed = Feed(1024, SlowFlush(10, 3))
    keys = [f"{i}" for i in range(6)]
    assert feed(*((key, 0) for key in keys)) == {}  # nothing is old yet
    left = [sum(feed(("new", 1)).values()) for _ in range(18)]
    assert left == [0, 0, 1] * 6
    feed = Feed(1024, SlowFlush(10, 3))
    feed(*((key, 0) for key in keys))
    assert sum(feed(*[("new", 1)] * 18).values()) == 6  # the same for a batch, at its end


def test_results_wait_for_their_panes() -> None:
    rows: list[Row] = [(f"{t % 7}", 1, 1.0, t) for t in range(200)]
    node = Stream(rows, 10, 10, 0, 0, "count(*) AS n", "k").node(5)
    operator = TwoLevel(node, 64, LazyFlush(2))
    released: dict[int, int] = {}
    for item in items(node):
        if not isinstance(item, Progress):
            assert isinstance(item, Batch)
            list(operator.on_batch(0, item))
            continue
        bound = max(item.bounds.values(), default=0)
        for answer in operator.on_progress(0, item):
            if isinstance(answer, Batch):
                for wid in answer.rows.column("window_id").to_pylist():
                    released[wid] = int(bound)
    late = [bound // 10 - (wid + 1) for wid, bound in released.items() if bound]
    assert late
    assert max(late) <= 2


def test_refuses_nonsense() -> None:
    node = Stream([("a", 1, 1.0, 0)], 1, 1, 0, 0, "count(*) AS n", "k").node()
    for wrong in (
        lambda: LazyFlush(-1),
        lambda: SlowFlush(1, 0),
        lambda: LowLevel(node, 0, LazyFlush()),
    ):
        with pytest.raises(PlanError):
            wrong()
