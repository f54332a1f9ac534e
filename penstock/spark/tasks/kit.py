"""How rows become what goes to the buckets of a port: routed as they are, or folded into panes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.model.arrays import Ints
from penstock.operators.batch import Batch
from penstock.operators.windows.panes.partial import PaneMaker
from penstock.plan.nodes.stateless import Scan
from penstock.promises.sub_sources import SubSources
from penstock.spark.tasks.messages import RowsPiece
from penstock.spark.tasks.routing import PortRouter, by_bucket
from penstock.state.chunks import Tree

if TYPE_CHECKING:
    from penstock.spark.plan.config import StageConfig

_MANY = 1 << 20  # keys, or sub-sources, that are remembered
_GAIN = 1.25  # rows that a partial result has to stand for: otherwise they go as they are,
_BATCHES = 16  # so many batches, until folding is tried anew


@dataclass
class Outgoing:
    """What goes to one bucket."""

    rows: list[RowsPiece] = field(default_factory=list)
    panes: list[Tree] = field(default_factory=list)


class Kit:
    """What a worker keeps for an entry between micro-batches: which keys and sub-sources there
    are."""

    def __init__(self, config: StageConfig, entry: int) -> None:
        stage, port = config.stage, config.stage.entries[entry].port
        self.router = PortRouter(stage, port, config.buckets)
        self.maker = PaneMaker(stage.node) if stage.makes_panes(port) else None  # type: ignore[arg-type]
        self._as_they_are = 0  # batches that are not worth folding
        self._of_groups: Ints = np.zeros(0, np.int64)
        self._sub_sources: SubSources | None = None

    def sub_sources(self, scan: Scan) -> SubSources | None:
        if self._sub_sources is None and scan.stream.progress is not None:
            self._sub_sources = SubSources(scan.stream, scan.stream.progress)
        return self._sub_sources

    def route(self, piece: RowsPiece, outgoing: list[Outgoing]) -> None:
        """Rows, with all that they say of themselves."""
        batch = piece.batch
        for bucket, rows, copies in self.router.routes(batch.rows):
            own = piece
            if len(rows) < batch.num_rows:
                own = RowsPiece(
                    batch.take(rows),
                    piece.order.take(pa.array(rows)) if piece.order is not None else None,
                    piece.groups[rows] if piece.groups is not None else None,
                )
            outgoing[bucket].rows.append(replace(own, copies=copies))

    def folds(self) -> bool:
        """Whether the next batch is to be folded: not if those before had almost as many groups in
        their panes as rows.  To the buckets it is the same, so every task can see for itself."""
        if self.maker is None or not self._as_they_are:
            return self.maker is not None
        self._as_they_are -= 1
        return False

    def fold(self, batch: Batch, outgoing: list[Outgoing]) -> int | None:
        """Partial results of the rows, and how many they are; None if they are too many, or if one
        has no value.  Perhaps it came too late to count, which a bucket can tell."""
        maker = self.maker
        assert maker is not None
        try:
            made, groups = maker.panes(batch.rows, batch.places)
        except RunError:
            return None
        if len(made) * _GAIN > batch.num_rows:
            self._as_they_are = _BATCHES
            return None
        buckets = self._bucket_of_groups(maker)[groups]
        for bucket, pairs in by_bucket(buckets):
            own = made if len(pairs) == len(made) else maker.take(made, pairs)
            outgoing[bucket].panes.append(own.save(maker.folder))
        return len(made)

    def _bucket_of_groups(self, maker: PaneMaker) -> Ints:
        """The bucket of every group that the pane maker knows."""
        keys = maker.folder.keys
        if len(self._of_groups) > len(keys):
            self._of_groups = self._of_groups[:0]
        if len(self._of_groups) < len(keys):
            fresh = keys.take(np.arange(len(self._of_groups), len(keys)))
            hashed = self.router.keys.hashed(fresh, len(keys) - len(self._of_groups))
            self._of_groups = np.concatenate([self._of_groups, hashed])
        return self._of_groups

    def tidy(self) -> None:
        """Forget keys, and sub-sources, when they have become very many."""
        if self._sub_sources is not None and len(self._sub_sources) > _MANY:
            self._sub_sources = None
        if self.maker is not None and len(self.maker.folder.keys) > _MANY:
            self.maker.forget_keys()
            self._of_groups = self._of_groups[:0]
