"""An operator that is watched: whatever it gives has to keep what it has promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.operator import Item, Metrics, OpenResults, Progress
from penstock.kernel.state import ChunkStore
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.types import Type


class Watched:
    """`promised` is kept by the test, so that promises outlive the operator that made them."""

    def __init__(self, operator: Any, types: Mapping[str, Type], promised: list[Progress]) -> None:
        self.operator = operator
        self._types = types
        self._promised = promised

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        return self._kept(self.operator.on_batch(port, batch))

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        return self._kept(self.operator.on_progress(port, progress))

    def _kept(self, items: list[Item]) -> list[Item]:
        for item in items:
            if isinstance(item, Batch):
                self._check(item)
            elif isinstance(item, Progress):
                for name, bound in self._bounds().items():
                    assert item.ended or item.bounds.get(name, BEGINNING) >= bound
                self._promised.append(item)
        return items

    def _bounds(self) -> Mapping[str, Bound]:
        return self._promised[-1].bounds if self._promised else {}

    def _check(self, batch: Batch) -> None:
        ticks = {
            name: to_ticks(batch.rows.column(name), sql_type)
            for name, sql_type in self._types.items()
        }
        assert not any(item.ended for item in self._promised)
        for name, bound in self._bounds().items():
            assert bound == BEGINNING or (ticks[name] >= int(bound)).all(), (name, bound)
        for item in self._promised:
            for joint in item.joint:
                pairs = zip(joint.attributes, joint.bounds, strict=True)
                below = [ticks[name] < int(bound) for name, bound in pairs]
                assert not (below[0] & below[1]).any(), joint

    def due(self) -> int | None:
        return None

    def on_time(self, now: int) -> list[Item]:
        return list(self.operator.on_time(now))

    def metrics(self) -> Metrics:
        found: Metrics = self.operator.metrics()
        return found

    def rows_held(self) -> int:
        found: int = self.operator.rows_held()
        return found

    def open_results(self) -> OpenResults:
        found: OpenResults = self.operator.open_results()
        return found

    def save(self, store: ChunkStore) -> None:
        self.operator.save(store)

    def load(self, store: ChunkStore) -> None:
        self.operator.load(store)

    def export(self) -> Any:
        return self.operator.export()

    def adopt(self, state: Any) -> None:
        self.operator.adopt(state)
