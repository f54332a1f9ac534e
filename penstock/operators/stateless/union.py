"""Union: tuples pass at once, and nothing is buffered (Meld); progress is that of the slowest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.batch import Batch
from penstock.operators.groups.melded import MeldedGroups
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once, by_name, by_origin
from penstock.operators.signed.lineage import of_branch
from penstock.plan.identity import origins
from penstock.plan.stateless import Union
from penstock.state.chunks import ChunkStore, MemoryStore, Tree


@dataclass(frozen=True, slots=True)
class UnionState:
    """What unions exchange: what their inputs have promised, as chunks, and the rows that have come
    and not left."""

    registers: Mapping[str, Tree] = field(default_factory=dict)
    rows: tuple[pa.RecordBatch, ...] = ()


class Meld(Base):
    """The union that passes tuples through and promises what the slowest input does (figure 8-2 of
    the thesis), for all tuples and for single groups.  It never says the same twice."""

    def __init__(self, node: Union) -> None:
        self._names = [[f.qualified for f in branch.schema] for branch in node.branches]
        self._output = [field.qualified for field in node.schema]
        self._origins = origins(node)
        self._bounds: list[dict[str, Bound]] = [{} for _ in node.branches]
        self._ended = [False] * len(node.branches)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        types = {each.qualified: each.type for each in node.schema}
        self._groups = MeldedGroups(types, self._origins, len(node.branches))
        self._adopted: list[pa.RecordBatch] = []  # rows that another union had let wait

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        yield from self._leaving()
        if batch.lineage is not None:
            lineage = of_branch(batch.lineage, port, len(self._names))
            batch = replace(batch, lineage=lineage)
        yield self._renamed(port, batch)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        yield from self._leaving()
        yield from self._melded(port, progress)

    def _leaving(self) -> Iterator[Batch]:
        yield from map(Batch, self._adopted)
        self._adopted = []

    def _renamed(self, port: int, batch: Batch) -> Batch:
        return batch.renamed(dict(zip(self._names[port], self._output, strict=True)))

    def _melded(self, port: int, progress: Progress) -> Iterator[Progress]:
        names = dict(zip(self._names[port], self._output, strict=True))
        self._bounds[port] = {names[k]: v for k, v in progress.bounds.items() if k in names}
        self._ended[port] = self._ended[port] or progress.ended
        for key, value in progress.high.items():
            if key in names:
                self._high[names[key]] = max(value, self._high.get(names[key], BEGINNING))
        waiting = [b for b, ended in zip(self._bounds, self._ended, strict=True) if not ended]
        common = set.intersection(*map(set, waiting)) if waiting else set()
        slowest = {name: min(bounds[name] for bounds in waiting) for name in common}
        promised = Progress(slowest, dict(self._high), all(self._ended))
        groups = progress.groups.renamed(names) if progress.groups is not None else None
        of_groups = self._groups.risen(port, groups, self._whole)
        if promised != self._promised and not of_groups:
            yield promised
        self._promised = promised
        for each in of_groups:
            yield replace(promised, groups=each)

    def _whole(self, name: str) -> list[Bound]:
        """What every input has promised for all tuples, about a column."""
        pairs = zip(self._bounds, self._ended, strict=True)
        return [END if ended else bounds.get(name, BEGINNING) for bounds, ended in pairs]

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._save_registers(store)
        if self._adopted:
            store.put("adopted", list(self._adopted))
        else:
            store.drop("adopted")

    def load(self, store: ChunkStore) -> None:
        self._load_registers(store)
        self._adopted = [rows.rename_columns(self._output) for rows in store.get("adopted") or ()]

    def _save_registers(self, store: ChunkStore) -> None:
        bounds = [by_origin(each, self._origins) for each in self._bounds]
        high, promised = by_origin(self._high, self._origins), self._promised.save(self._origins)
        registers = {"bounds": bounds, "ended": self._ended, "high": high}
        store.put("run", {**registers, "promised": promised})
        self._groups.save(store)

    def _load_registers(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._bounds = [by_name(each, self._origins) for each in saved["bounds"]]
            self._ended, self._high = saved["ended"], by_name(saved["high"], self._origins)
            self._promised = Progress.load(saved["promised"], self._origins)
            self._groups.load(store)

    def export(self) -> UnionState:
        store = MemoryStore()
        self._save_registers(store)
        registers = {name: store.get(name) for name in store.names()}
        return UnionState(registers, self._kept())

    def adopt(self, state: UnionState) -> None:
        store = MemoryStore()
        for name, chunk in state.registers.items():
            store.put(name, chunk)
        self._load_registers(store)
        self._keep(rows.rename_columns(self._output) for rows in state.rows)

    def _kept(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(self._adopted)

    def _keep(self, several: Iterable[pa.RecordBatch]) -> None:
        self._adopted += several
