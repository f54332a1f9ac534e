"""Streams that are read once, or once at a time, and are asked for more than once in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import EngineError
from penstock.optimizer.rewrite import with_inputs
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.sources.once import AGAIN
from penstock.sources.shared import SharedReading
from penstock.sources.source import can_be_read_again, is_read_alone


def share_readings(queries: Sequence[QueryPlan], functions: bool = True) -> list[QueryPlan]:
    """For engines that read a stream anew for every scan: one reading serves all of them; also of
    `functions` that make rows, for an engine that needs all rows in memory anyway.

    before: Union (Scan s, Scan s), where s is an iterator
    after:  the same, where s remembers what was read of the iterator
    """
    asked = Counter(id(stream) for query in queries for stream in _read_once(query, functions))
    shared: dict[int, StreamDefinition] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or asked[id(node.stream)] < 2:
            return with_inputs(node, change)
        stream = node.stream
        if id(stream) not in shared:
            assert stream.source is not None
            shared[id(stream)] = replace(stream, source=SharedReading(stream.source))
        return replace(node, stream=shared[id(stream)])

    return [with_inputs(query, change) for query in queries]


def read_in_turn(query: QueryPlan) -> list[StreamDefinition]:
    """The streams that are read anew for everyone in the query who asks.

    Where one scan serves all of them, each tuple comes to all at once rather than the whole stream
    to one after the other.  Only who counts rows as they come can tell."""
    found: dict[int, StreamDefinition] = {}
    for node in query.walk():
        if isinstance(node, WindowAggregate) and node.counts_rows:
            streams = [each.stream for each in node.walk() if isinstance(each, Scan)]
            times = Counter(map(id, streams))
            found |= {id(stream): stream for stream in streams if times[id(stream)] > 1}
    return list(found.values())


def check_can_be_read_in_turn(stream: StreamDefinition) -> None:
    if not can_be_read_again(stream.source):
        raise EngineError(
            f"a window counts the rows of stream {stream.name} as they come through several"
            " branches, and the stream can be read only once",
            hint=AGAIN,
        )


def _read_once(node: Node, functions: bool) -> list[StreamDefinition]:
    scans = [each for each in node.walk() if isinstance(each, Scan)]
    return [
        scan.stream
        for scan in scans
        if not can_be_read_again(scan.stream.source)
        or (functions and is_read_alone(scan.stream.source))
    ]
