"""Which scan of a stream serves which part of which query."""

from __future__ import annotations

from penstock.engine.graph.source_node import SourceNode
from penstock.engine.reading import Reading
from penstock.model.clock import Clock
from penstock.plan.stateless import Scan
from penstock.promises.ingest import Ingest
from penstock.sources.files import FileSource
from penstock.sources.rejects import RejectLog


class Scans:
    """One scan for all who ask for a stream; whoever comes when it has begun gets a scan of his own
    if the stream can be read again, and otherwise what follows.  Only a query that counts rows as
    they come gets one for each time that it asks, read one after the other, as the definition
    says."""

    def __init__(self, clock: Clock, strict: bool, resumable: bool, follow: bool) -> None:
        self._clock = clock
        self._strict = strict
        self._resumable = resumable
        self._follow = follow
        self._made: dict[tuple[int, int], SourceNode] = {}

    def serving(self, node: Scan, in_turn: dict[int, int]) -> SourceNode:
        """`in_turn` is how often the query has asked so far for each of those streams that it reads
        one time after the other."""
        stream = id(node.stream)
        times = in_turn.get(stream, 0)
        if stream in in_turn:
            in_turn[stream] += 1
        log = RejectLog(self._strict)
        ingest = Ingest(node, self._clock, log)
        source = node.stream.source
        ingest.followed = self._follow and isinstance(source, FileSource)
        key = (stream, 0 if ingest.live else times)
        if key in self._made and self._made[key].can_be_joined:
            self._made[key].ingest.narrow(node.room)  # read once, so it has to suit all of them
            return self._made[key]
        name = f"{node.stream.name} {key[1] + 1}" if key[1] else node.stream.name
        made = self._made[key] = SourceNode(name, ingest, log)
        made.again = key[1] > 0
        if source is not None and (self._resumable or ingest.followed):
            made.reading = Reading(source)
        return made

    def forget(self, source: SourceNode) -> None:
        """Nobody reads it any more."""
        self._made = {key: each for key, each in self._made.items() if each is not source}
