"""What waits between a source in a thread of its own and the scheduler."""

from __future__ import annotations

import pyarrow as pa

from penstock.io.sources.source import Bell, Chunk
from penstock.local.graph.source_node import Ended
from penstock.local.scheduling.reading import Inbox


def chunk(*values: int) -> Chunk:
    return Chunk(pa.record_batch({"v": pa.array(values, pa.int32())}))


def test_the_oldest_rows_make_room() -> None:
    inbox = Inbox(Bell(), keeping=3)
    for values in ((1, 2), (3,), (4, 5)):
        inbox.put(chunk(*values))
    assert inbox.dropped == 2
    assert [inbox.take() for _ in range(2)] == [chunk(3), chunk(4, 5)]


def test_the_last_rows_stay_however_many_they_are() -> None:
    """The end of the stream, which comes behind them, needs no room."""
    inbox = Inbox(Bell(), keeping=3)
    last = chunk(*range(10))
    inbox.put(chunk(1))
    inbox.put(last)
    inbox.put(Ended())
    assert inbox.dropped == 1
    assert [inbox.take() for _ in range(2)] == [last, Ended()]
