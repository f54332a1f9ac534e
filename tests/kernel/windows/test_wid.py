import numpy as np
import pytest
from hypothesis import given, settings

from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.operator import Progress
from penstock.kernel.windows.wid import Tagger, Wid, joined
from tests.kernel.algorithms_helper import (
    CUTS,
    Stream,
    defined,
    items,
    outcome,
    streams,
)


@given(streams())
@settings(max_examples=40, deadline=None)
def test_answers_are_the_defined_ones(stream: Stream) -> None:
    expected = defined(stream.node())
    for cut in CUTS:
        node = stream.node(cut)
        assert outcome(Wid(node), node) == expected


def test_bucket_tags_with_the_ids_of_figure_6_1() -> None:
    # ten windows of a minute's slide: a tuple of minute 10 is in windows 10 to 19
    node = Stream([("a", 1, 1.0, 605)], 600, 60, 0, 0, "count(*) AS n", "k").node()
    bucket = Tagger(node, Folder(node.keys, node.aggregates, node.input.schema))
    batch, *_ = items(node)
    assert isinstance(batch, Batch)
    tagged, late = bucket.tag(batch)
    assert (tagged.first.tolist(), tagged.stop.tolist(), late) == ([10], [20], None)
    # a promise of 11 minutes closes window 10
    name = node.input.schema.fields[3].qualified
    assert bucket.last_closed(bucket.promised(Progress({name: 660}))) == 10


def test_a_late_tuple_begins_with_the_first_open_window() -> None:
    rows = [("a", 1, 1.0, 30), ("a", 2, 1.0, 17)]
    node = Stream(rows, 20, 5, 0, 0, "count(*) AS n", "k").node()
    bucket = Tagger(node, Folder(node.keys, node.aggregates, node.input.schema))
    batch, *_ = items(node)
    assert isinstance(batch, Batch)
    tagged, late = bucket.tag(batch)
    assert late is not None
    assert late.batch.column("missed_first").to_pylist() == [3]
    assert late.batch.column("missed_last").to_pylist() == [5]
    assert tagged.first.tolist() == [6, 6]
    found = {
        wid: rows.positions.tolist()
        for wid, rows in tagged.in_order(bucket.window).extents(bucket.window)
    }
    assert found == {6: [17, 30], 7: [30], 8: [30], 9: [30]}


def test_windows_far_apart_are_not_walked_through() -> None:
    rows = [("a", 1, 1.0, 0), ("a", 1, 1.0, 10**15)]
    node = Stream(rows, 2, 1, 0, 0, "count(*) AS n", "").node()
    assert len(outcome(Wid(node), node).rows) == 4


@pytest.mark.parametrize("aggregates", ["sum(v) FILTER (WHERE v > 0) AS s", "count(*) AS n"])
def test_joined_pieces_are_the_whole(aggregates: str) -> None:
    rows = [("a", v, 1.0, v % 5) for v in [1, -1, 2, 3]] + [("b", None, 1.0, 3)]
    node = Stream(rows, 5, 1, 0, 100, aggregates, "k").node()
    bucket = Tagger(node, Folder(node.keys, node.aggregates, node.input.schema))
    batch, *_ = items(node)
    assert isinstance(batch, Batch)
    whole, _ = bucket.tag(batch)
    pieces = joined([bucket.tag(batch.take(np.array([i])))[0] for i in range(batch.num_rows)])
    assert np.array_equal(pieces.rows.codes, whole.rows.codes)
    for mine, its in zip(pieces.rows.arguments, whole.rows.arguments, strict=True):
        if its.chosen is not None:
            assert mine.chosen is not None
            assert mine.chosen.tolist() == its.chosen.tolist()
        assert [c.to_pylist() for c in mine.columns] == [c.to_pylist() for c in its.columns]
