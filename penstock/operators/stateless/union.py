"""Union: tuples pass at once, and nothing is buffered (Meld); progress is that of the slowest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.row_form import RowForm
from penstock.operators.batch import Batch
from penstock.operators.groups.melded import MeldedGroups
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, by_name, by_origin
from penstock.operators.signed.lineage import of_branch
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.stateless import Union
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
        self._output = [field.qualified for field in node.schema]
        self._form = RowForm(node.schema)
        self._names = [  # of the columns of each branch, and what they are called here
            dict(zip((f.qualified for f in branch.schema), self._output, strict=True))
            for branch in node.branches
        ]
        self._origins = origins(node)
        self._bounds: list[dict[str, Bound]] = [{} for _ in node.branches]
        self._ended = [False] * len(node.branches)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        types = {each.qualified: each.type for each in node.schema}
        self._groups = MeldedGroups(types, self._origins, len(node.branches))
        self._adopted: list[pa.RecordBatch] = []  # rows that another union had let wait

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        if batch.lineage is not None:
            lineage = of_branch(batch.lineage, port, len(self._names))
            batch = replace(batch, lineage=lineage)
        renamed = self._renamed(port, batch)
        return [*self._leaving(), renamed] if self._adopted else [renamed]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        melded = self._melded(port, progress)
        return [*self._leaving(), *melded] if self._adopted else [*melded]

    def _leaving(self) -> list[Batch]:
        leaving, self._adopted = self._adopted, []
        return [Batch(each) for each in leaving]

    def _renamed(self, port: int, batch: Batch) -> Batch:
        if batch.form is not None:
            return Batch.single(batch.values, self._form)
        if batch.broken is None:
            return batch.with_rows(batch.rows.rename_columns(self._output))
        return batch.renamed(self._names[port])

    def _melded(self, port: int, progress: Progress) -> list[Progress]:
        names = self._names[port]
        self._bounds[port] = {names[k]: v for k, v in progress.bounds.items() if k in names}
        self._ended[port] = self._ended[port] or progress.ended
        for key, value in progress.high.items():
            name = names.get(key)
            if name is not None and value > self._high.get(name, BEGINNING):
                self._high[name] = value
        promised = Progress(self._slowest(), dict(self._high), all(self._ended))
        before, self._promised = self._promised, promised
        if progress.groups is not None or self._groups:
            groups = progress.groups.renamed(names) if progress.groups is not None else None
            of_groups = self._groups.risen(port, groups, self._whole)
            if of_groups:
                return [replace(promised, groups=each) for each in of_groups]
        # how far the inputs have come is said with the next bound: alone it completes nothing
        news = promised.bounds != before.bounds or promised.ended != before.ended
        return [promised] if news else []

    def _slowest(self) -> dict[str, Bound]:
        """The lowest bound on each column about which all that go on have promised something."""
        slowest: dict[str, Bound] | None = None
        for bounds, ended in zip(self._bounds, self._ended, strict=True):
            if ended:
                continue
            if slowest is None:
                slowest = dict(bounds)
                continue
            for name in list(slowest):
                if name not in bounds:
                    del slowest[name]
                elif bounds[name] < slowest[name]:
                    slowest[name] = bounds[name]
        return slowest or {}

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
