"""Which streams are read for whom: one reading serves all ways that lead from a stream.

Stages that are fed from one reading stand in a row: each hands on what is for those behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from penstock.model.room import Room
from penstock.model.schema import Schema
from penstock.plan.stateless import Scan
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
class StreamReading:
    """`scan` has the columns that one of the ways wants, to stages or, without any, to the `ends`.
    Where another reading of the stream `counts` its rows, this one does not."""

    scan: Scan
    ways: tuple[WayToStage, ...]
    ends: tuple[Entry, ...] = ()
    counts: bool = True

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

    def in_turn(self) -> Iterator[StreamReading]:
        """One for every way: all tuples on one come before those on the next."""
        return self._parts([(way,) for way in self.ways])

    def _parts(self, ways: Sequence[tuple[WayToStage, ...]]) -> Iterator[StreamReading]:
        parts = [replace(self, ways=each, ends=()) for each in ways]
        parts += [replace(self, ways=())] if self.ends else []
        for number, part in enumerate(parts):
            yield replace(part, counts=self.counts and number == 0)


def readings_of(
    configs: Iterable[StageConfig],
    ends: Iterable[Entry],
    streams: Mapping[str, StreamDefinition],
) -> list[StreamReading]:
    """One for every stream, which the query knows as they were before columns were left out."""
    ways: dict[str, list[WayToStage]] = {}
    for config in configs:
        for number, entry in enumerate(config.stage.entries):
            if isinstance(entry.leaf, Scan):
                ways.setdefault(entry.leaf.stream.name, []).append(WayToStage(config, number))
    to_end: dict[str, list[Entry]] = {}
    for entry in ends:
        if isinstance(entry.leaf, Scan):
            to_end.setdefault(entry.leaf.stream.name, []).append(entry)
    made = []
    for name in dict.fromkeys([*ways, *to_end]):
        own, last = tuple(ways.get(name, ())), tuple(to_end.get(name, ()))
        leaves = [entry.leaf for entry in (*(way.entry for way in own), *last)]
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
