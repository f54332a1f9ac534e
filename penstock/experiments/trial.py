"""What an experiment runs: live streams that it feeds itself, and a query over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue

import numpy as np
import pyarrow as pa

from penstock.api.database import Database
from penstock.api.progress_clause import progress
from penstock.api.query import Query
from penstock.engine.options import Scheduling
from penstock.model.arrays import Mask
from penstock.model.clock import Clock
from penstock.model.schema import Schema
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.settings import Settings
from penstock.physical.host import Host
from penstock.physical.plan import PhysicalPlan
from penstock.runs.outlet import Outlet
from penstock.sinks.callback import Callback
from penstock.sources.live import Attention, LiveSource, nothing
from penstock.sources.rejects import StreamRejects
from penstock.sources.source import Chunk

NUMBERED = pa.schema([("v", pa.int64())])
Seen = Callable[[pa.RecordBatch], None]
FILTER = "v % 100 >= 5"  # 95 % pass, as in the papers


def passing(count: int) -> Mask:
    """Which of the tuples with the first numbers pass the filter."""
    return np.arange(count) % 100 >= 5


@dataclass(frozen=True)
class FedSource(LiveSource):
    """Says what is put into its queue, by any thread; None is the end."""

    said: SimpleQueue[pa.RecordBatch | None] = field(default_factory=SimpleQueue)

    def describe(self) -> str:
        return "EXPERIMENT"

    def read(self, schema: Schema, rejects: StreamRejects) -> Iterator[Chunk]:
        return self.listen(schema, rejects, Attention())

    def listen(
        self,
        schema: Schema,
        rejects: StreamRejects,  # noqa: ARG002
        attention: Attention,
    ) -> Iterator[Chunk]:
        with attention.bell.closing(lambda: self.said.put(None)):
            while True:
                try:
                    rows = self.said.get(timeout=attention.patience())
                except Empty:
                    yield nothing(schema)
                    continue
                if rows is None:
                    return
                yield Chunk(rows)


@dataclass(frozen=True)
class Trial:
    """A query over streams of numbered tuples.  They are stamped when they enter (INTERNAL), where
    an operator wants to know (LATENT), or never (None)."""

    sql: str
    streams: tuple[str, ...]
    ets: str = "on demand"
    stamps: str | None = "INTERNAL"
    strategy: str | None = None
    carriage: str | None = None

    @property
    def scheduling(self) -> Scheduling:
        return Scheduling.of(self.strategy, self.ets, self.carriage)

    def placed(self, clock: Clock, seen: Seen) -> tuple[PhysicalPlan, Outlet, list[FedSource]]:
        """The plan, where its rows go, and what its streams are fed through."""
        database = Database("local", clock=clock)
        sources = []
        for name in self.streams:
            stamped = progress("ts", timestamps=self.stamps) if self.stamps else None
            database.stream(name, [], schema={"v": "BIGINT"}, progress=stamped)
            sources.append(source := FedSource())
            streams = database.catalog.streams
            streams[name] = replace(streams[name], source=source)
        query = database.sql(self.sql)
        assert isinstance(query, Query)
        plan = physical_plan(query.plan, Settings(host=Host.LOCAL))
        return plan, Outlet(query.plan, Callback(seen)), sources
