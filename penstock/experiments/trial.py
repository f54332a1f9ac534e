"""Trials: when tuples come, what operators cost, the graph that is run, and what is observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.api.database import Database
from penstock.api.query import Query
from penstock.api.streams import progress
from penstock.io.sinks.sink import Callback
from penstock.io.sources.rejects import StreamRejects
from penstock.io.sources.source import Attention, Chunk, LiveSource, nothing
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Measured, Progress
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph_options import Scheduling
from penstock.model.arrays import Floats, Ints, Mask
from penstock.model.clock import Clock
from penstock.model.types import Schema
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.physical import Host, PhysicalPlan
from penstock.runs.answer import Outlet

SECOND = 1_000_000  # microseconds


@dataclass(frozen=True)
class TupleTimes:
    """Arrivals of tuples in order; a tuple is identified by its number."""

    times: Ints  # microseconds since the beginning
    streams: npt.NDArray[np.int64]
    duration: int

    def __len__(self) -> int:
        return len(self.times)

    def slowed(self, times: int) -> TupleTimes:
        """Return these arrivals in slow motion."""
        return TupleTimes(self.times * times, self.streams, self.duration * times)


def poisson(
    rates: Sequence[float], seconds: float, bursts: Sequence[int] | None = None, seed: int = 7
) -> TupleTimes:
    """Make arrivals of each stream at an average rate per second, several of them at the same
    moment."""
    duration = round(seconds * SECOND)
    sizes = bursts or [1] * len(rates)
    times, streams = [], []
    for stream, (rate, size) in enumerate(zip(rates, sizes, strict=True)):
        own = np.random.default_rng([seed, stream])
        count = own.poisson(rate * seconds / size)
        moments = np.sort(own.integers(0, duration, count))
        times.append(np.repeat(moments, size))
        streams.append(np.full(count * size, stream))
    all_times, all_streams = np.concatenate(times), np.concatenate(streams)
    order = np.argsort(all_times, kind="stable")
    return TupleTimes(all_times[order], all_streams[order], duration)


# Costs of operators, for a tuple and for progress, in addition to the work that they really do.

Spend = Callable[[int], None]  # so many microseconds


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in microseconds: of letting a tuple enter, of processing one in an operator, and of
    progress in an operator; the `free` kinds of operators cost nothing."""

    entry: int = 0
    tuple: int = 20
    progress: int = 0
    free: frozenset[str] = frozenset()

    def slowed(self, times: int) -> Costs:
        """Return these costs in slow motion."""
        entry, tuple_, progress = (each * times for each in (self.entry, self.tuple, self.progress))
        return replace(self, entry=entry, tuple=tuple_, progress=progress)

    def charge(self, operators: Iterable[OperatorNode], spend: Spend) -> None:
        """Make operators take these times from now on."""
        for node in operators:
            if node.measured.name not in self.free:
                node.measured = _Charged(node.measured, self, spend)


class _Charged(Measured):
    """Lets time pass when an operator is called, before its results are passed on."""

    def __init__(self, measured: Measured, costs: Costs, spend: Spend) -> None:
        super().__init__(measured.operator, measured.name)
        self._costs = costs
        self._spend = spend

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        self._spend(self._costs.tuple * batch.num_rows)
        return super().on_batch(port, batch)

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        self._spend(self._costs.progress)
        return super().on_progress(port, progress)


# The trial: live streams that the experiment feeds, and a query over them.

NUMBERED = pa.schema([("v", pa.int64())])
Seen = Callable[[pa.RecordBatch], None]
FILTER = "v % 100 >= 5"  # 95 % pass, as in the papers


def passing(count: int) -> Mask:
    """Mask of the tuples that pass the filter, by their numbers."""
    return np.arange(count) % 100 >= 5


@dataclass(frozen=True)
class FedSource(LiveSource):
    """A source whose rows any thread puts into its queue; None is the end."""

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
    """A query over streams of numbered tuples. They are stamped when they enter (INTERNAL), at the
    operator that needs it (LATENT), or never (None)."""

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
        """Make the plan, its outlet, and the sources that its streams are fed through."""
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


# Observations of a run: when each tuple was emitted, how many waited, and which operators waited
# idly.

WHILE = 0.02  # seconds: burstiness is that of rows counted for so long, as in the paper


@dataclass(frozen=True)
class Observed:
    """Times of a run in microseconds. A tuple that has not left, or never will, has no latency."""

    numbers: Ints  # of the rows, in the order in which they left
    left: Floats  # when that was
    arrived: Floats  # when the tuples of these numbers came
    peak: int  # the most tuples in all buffers and operators together
    idle: float  # the time that the last union, or whoever puts rows in order, has waited idly
    duration: float

    @staticmethod
    def of(
        arrivals: TupleTimes,
        rows: list[tuple[float, Ints]],
        peak: int,
        idle: float,
        duration: float,
    ) -> Observed:
        numbers = np.concatenate([each for _, each in rows]) if rows else np.empty(0, np.int64)
        left = np.repeat([when for when, _ in rows], [len(each) for _, each in rows])
        known = (numbers >= 0) & (numbers < len(arrivals))  # others are results of aggregates
        arrived = np.full(len(numbers), np.nan)
        arrived[known] = arrivals.times[numbers[known]]
        return Observed(numbers, np.asarray(left, float), arrived, peak, idle, duration)

    @property
    def latencies(self) -> Floats:
        taken: Floats = (self.left - self.arrived)[~np.isnan(self.arrived)]
        return taken

    @property
    def median(self) -> float:
        """Median latency in milliseconds."""
        return float(np.median(self.latencies)) / 1000

    @property
    def mean(self) -> float:
        return float(np.mean(self.latencies)) / 1000

    @property
    def idle_share(self) -> float:
        return self.idle / self.duration

    @property
    def burstiness(self) -> float:
        """Difference between the most and the fewest rows in an interval, divided by the
        average."""
        width = WHILE * SECOND
        edges = np.arange(0, self.duration + 1, width)
        counts, _ = np.histogram(self.left, edges)
        return float((counts.max() - counts.min()) / counts.mean())


def most_inside(arrivals: TupleTimes, rows: list[tuple[float, Ints]]) -> int:
    """Highest number of tuples inside the graph, of those that pass the filters."""
    came = arrivals.times[passing(len(arrivals))].astype(float)
    left = np.repeat([when for when, _ in rows], [len(each) for _, each in rows])
    moments = np.concatenate([came, left])
    change = np.concatenate([np.ones(len(came), int), -np.ones(len(left), int)])
    order = np.argsort(moments, kind="stable")
    return int(np.cumsum(change[order]).max(initial=0))
