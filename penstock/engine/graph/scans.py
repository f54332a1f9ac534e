"""Which scan of a stream serves which part of which query."""

from __future__ import annotations

from penstock.engine.graph.source_node import SourceNode
from penstock.engine.reading.reading import Reading
from penstock.errors import EngineError
from penstock.model.clock import Clock
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.promises.ingest import Ingest
from penstock.sources.files import FileSource
from penstock.sources.live import LiveSource
from penstock.sources.once import REPLAYABLE
from penstock.sources.rejects import RejectLog
from penstock.sources.source import can_be_read_again, is_read_alone


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
        self._made: dict[tuple[int, int, bool], SourceNode] = {}
        self._saved: dict[str, SourceNode] = {}  # those that were there before, by name

    def check(self, stream: StreamDefinition, lasting: bool) -> None:
        """Whether one more query can read a stream: another reading would take rows away from one
        that is under way, and what that has delivered already is not remembered."""
        if not is_read_alone(stream.source):
            return
        known = self._made.get((id(stream), 0, False))
        if known is None or known.can_be_joined or known.ingest.ended:
            return
        if known.exhausted and not lasting:
            return  # it will be read on by a later engine
        raise EngineError(
            f"stream {stream.name} is being read already, and calling its function again may take"
            " rows away from that reading",
            expected="queries that come before its first row, or after its end",
            hint=REPLAYABLE,
        )

    def serving(
        self,
        node: Scan,
        in_turn: dict[int, int],
        lasting: bool = False,
        saved: str | None = None,
    ) -> SourceNode:
        """`in_turn` is how often the query has asked so far for each of those streams that it reads
        one time after the other.  A query that is `lasting` goes on after the end of what can be
        read now, so it has readings of its own; `saved` is the name of the one that it had."""
        stream = id(node.stream)
        times = in_turn.get(stream, 0)
        if stream in in_turn:
            in_turn[stream] += 1
        log = RejectLog(self._strict)
        ingest = Ingest(node, self._clock, log)
        source = node.stream.source
        ingest.followed = self._follow and isinstance(source, FileSource)
        apart = can_be_read_again(source) and not is_read_alone(source)
        own = lasting and apart and not isinstance(source, LiveSource)
        key = (stream, 0 if ingest.live else times, own)
        known = self._made.get(key) if saved is None else self._saved.get(saved)
        if known is not None and (saved is not None or known.can_be_joined):
            known.ingest.narrow(node.room)  # read once, so it has to suit all of them
            return known
        name = f"{node.stream.name} {key[1] + 1}" if key[1] else node.stream.name
        made = self._made[key] = SourceNode(saved or name, ingest, log)
        if saved is not None:
            self._saved[saved] = made
        made.again = key[1] > 0
        if source is not None and (self._resumable or ingest.followed):
            made.reading = Reading(source)
        return made

    def forget(self, source: SourceNode) -> None:
        """Nobody reads it any more."""
        self._made = {key: each for key, each in self._made.items() if each is not source}
        self._saved = {name: each for name, each in self._saved.items() if each is not source}
