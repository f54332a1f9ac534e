"""Union: tuples pass at once, and nothing is buffered (Meld); progress is that of the slowest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once, by_name, by_origin
from penstock.operators.signed.lineage import of_branch
from penstock.plan.identity import origins
from penstock.plan.stateless import Union
from penstock.state.chunks import ChunkStore


class Meld(Base):
    """The union that passes tuples through and promises what the slowest input does."""

    def __init__(self, node: Union) -> None:
        self._names = [[f.qualified for f in branch.schema] for branch in node.branches]
        self._output = [field.qualified for field in node.schema]
        self._origins = origins(node)
        self._bounds: list[dict[str, Bound]] = [{} for _ in node.branches]
        self._ended = [False] * len(node.branches)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        if batch.lineage is not None:
            lineage = of_branch(batch.lineage, port, len(self._names))
            batch = replace(batch, lineage=lineage)
        yield batch.renamed(dict(zip(self._names[port], self._output, strict=True)))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
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
        if promised != self._promised:
            self._promised = promised
            yield promised

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        bounds = [by_origin(each, self._origins) for each in self._bounds]
        high, promised = by_origin(self._high, self._origins), self._promised.save(self._origins)
        registers = {"bounds": bounds, "ended": self._ended, "high": high}
        store.put("run", {**registers, "promised": promised})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._bounds = [by_name(each, self._origins) for each in saved["bounds"]]
            self._ended, self._high = saved["ended"], by_name(saved["high"], self._origins)
            self._promised = Progress.load(saved["promised"], self._origins)
