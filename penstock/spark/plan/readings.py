"""Which streams are read for whom: one reading serves all ways that lead from a stream.

Stages that are fed from one reading stand in a row: each hands on what is for those behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from penstock.model.room import Room
from penstock.model.schema import Schema
from penstock.plan.nodes.stateless import Scan
from penstock.plan.streams import StreamDefinition
from penstock.spark.plan.config import StageConfig
from penstock.spark.plan.stages import Entry


@dataclass(frozen=True)
class WayToStage:
    config: StageConfig
    number: int  # of the entry

    @property
    def entry(self) -> Entry:
        return self.config.stage.entries[self.number]


@dataclass(frozen=True)
class WayToEnd:
    """To the results of a query, by its number in the run; and the number of the way."""

    entry: Entry
    query: int = 0
    number: int = 0


@dataclass(frozen=True)
class StreamReading:
    """`scan` has the columns that one of the ways wants, to stages or, without any, to the `ends`.
    Where another reading of the stream `counts` its rows, this one does not."""

    scan: Scan
    ways: tuple[WayToStage, ...]
    ends: tuple[WayToEnd, ...] = ()
    counts: bool = True
    analyzed: bool = False  # whether somebody wants to know what is done on the ways

    @property
    def stream(self) -> str:
        return self.scan.stream.name

    @property
    def needs_row(self) -> bool:
        """Whether several stages are fed from it, or one and the end."""
        stages = {id(way.config) for way in self.ways}
        return len(stages) + bool(self.ends) > 1

    def apart(self) -> Iterator[StreamReading]:
        """One for every stage, and one for the ends."""
        by_stage: dict[int, list[WayToStage]] = {}
        for way in self.ways:
            by_stage.setdefault(id(way.config), []).append(way)
        return self._parts([tuple(ways) for ways in by_stage.values()])

    def in_turn(self, queries: Collection[int] = (0,)) -> Iterator[StreamReading]:
        """One for every way of some queries: all tuples on one come before those on the next.  The
        others have one together."""
        alone = [way for way in self.ways if not set(way.config.queries).isdisjoint(queries)]
        others = tuple(way for way in self.ways if way not in alone)
        return self._parts([*([others] if others else []), *((way,) for way in alone)])

    def _parts(self, ways: Sequence[tuple[WayToStage, ...]]) -> Iterator[StreamReading]:
        parts = [replace(self, ways=each, ends=()) for each in ways]
        parts += [replace(self, ways=())] if self.ends else []
        for number, part in enumerate(parts):
            yield replace(part, counts=self.counts and number == 0)


def readings_of(
    configs: Iterable[StageConfig],
    ends: Iterable[WayToEnd],
    streams: Mapping[str, StreamDefinition],
) -> list[StreamReading]:
    """One for every stream, which queries know as they were before columns were left out."""
    ways: dict[str, list[WayToStage]] = {}
    for config in configs:
        for number, entry in enumerate(config.stage.entries):
            if isinstance(entry.leaf, Scan):
                ways.setdefault(entry.leaf.stream.name, []).append(WayToStage(config, number))
    to_end: dict[str, list[WayToEnd]] = {}
    for end in ends:
        if isinstance(end.entry.leaf, Scan):
            to_end.setdefault(end.entry.leaf.stream.name, []).append(end)
    made = []
    for name in dict.fromkeys([*ways, *to_end]):
        own, last = tuple(ways.get(name, ())), tuple(to_end.get(name, ()))
        entries = [*(way.entry for way in own), *(way.entry for way in last)]
        leaves = [entry.leaf for entry in entries]
        scan = scan_for([leaf for leaf in leaves if isinstance(leaf, Scan)], streams[name])
        made.append(StreamReading(scan, own, last))
    return made


def scan_for(scans: Sequence[Scan], stream: StreamDefinition) -> Scan:
    """One scan with the columns of all of them, under the alias of the first."""
    wanted = {name for scan in scans for name in scan.stream.schema.names}
    fields = tuple(field for field in stream.schema if field.name in wanted)
    first = scans[0]
    if len(fields) > len(first.stream.schema.fields):
        first = replace(first, stream=replace(first.stream, schema=Schema(fields)))
    return replace(first, room=reduce(Room.meet, [scan.room for scan in scans]))
