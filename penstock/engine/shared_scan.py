"""A stream that is read once for all that ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from penstock.engine.reading import Reading
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, LateRows, Progress
from penstock.plan.stateless import Scan
from penstock.promises.ingest import Ingest
from penstock.runs.outlet import Outlet
from penstock.sources.rejects import RejectKind, RejectLog
from penstock.sources.source import Chunk


class ItemTarget(Protocol):
    """Whoever takes items at a port."""

    def take(self, port: int, item: Item) -> None: ...


@dataclass(frozen=True, slots=True)
class _Tap:
    """Where the items of a scan go, under the names of one query."""

    target: ItemTarget
    port: int
    names: dict[str, str] | None  # None: as they are

    def take(self, item: Item) -> None:
        self.target.take(self.port, item if self.names is None else _renamed(item, self.names))


def _renamed(item: Item, names: dict[str, str]) -> Item:
    match item:
        case Progress():
            bounds = {names[name]: bound for name, bound in item.bounds.items()}
            high = {names[name]: bound for name, bound in item.high.items()}
            groups = item.groups.renamed(names) if item.groups is not None else None
            joint = tuple(each.renamed(names) for each in item.joint)
            return Progress(bounds, high, item.ended, groups, joint)
        case LateRows():  # a scan has none
            return item
        case Batch():
            return item.renamed(names)


@dataclass(eq=False)
class SharedScan:
    name: str
    ingest: Ingest
    log: RejectLog
    reading: Reading | None = None  # if the run can go on later
    caught_up: bool = False  # with files that are followed: all that is there has been read
    taps: list[_Tap] = field(default_factory=list)
    outlets: list[Outlet] = field(default_factory=list)

    def chunks(self, growing: bool = False) -> Iterator[Chunk]:
        """What has not been read yet; a source that goes on `growing` may end in half a line."""
        ingest = self.ingest
        if self.reading is None:
            return ingest.chunks()
        return self.reading.chunks(ingest.stream.input_schema, ingest.rejects, growing)

    def tap(self, node: Scan, target: ItemTarget, port: int, outlet: Outlet) -> None:
        own, wanted = self.ingest.schema.names, node.schema.arrow.names
        names = None
        if own != wanted:
            names = dict(zip(own, wanted, strict=True))
        self.taps.append(_Tap(target, port, names))
        if outlet not in self.outlets:
            self.outlets.append(outlet)

    @property
    def read(self) -> int:
        """How many rows, the bad ones as well."""
        return self.ingest.read + self.log.count(RejectKind.BAD_ROW)
