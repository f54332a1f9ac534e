"""An operator with counters around it: what comes, what goes, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass

from penstock.operators.batch import Batch
from penstock.operators.metrics import Metrics
from penstock.operators.operator import Item, LateRows, Operator, Progress
from penstock.state.chunks import Tree


@dataclass(slots=True)
class Traffic:
    """What has gone through an operator since it was made."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    calls: int = 0
    nanoseconds: int = 0
    waiting: int = 0  # nanoseconds in which rows were held that only progress could release


@dataclass(slots=True)
class PortTraffic:
    """What has come to one port of it: tuples, in how many batches, how long they took, and how
    many rows left because of them."""

    rows: int = 0
    batches: int = 0
    nanoseconds: int = 0
    results: int = 0


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """How one operator of a run is doing."""

    name: str
    flow: Traffic
    held: Metrics

    def plus(self, other: OperatorStatus) -> OperatorStatus:
        """Two parts of one operator together; what is open may be open in both."""
        flow = Traffic(
            *(a + b for a, b in zip(astuple(self.flow), astuple(other.flow), strict=True))
        )
        mine, its = self.held, other.held
        most = max(mine.open, its.open)
        counters = {
            name: mine.counters.get(name, 0) + its.counters.get(name, 0)
            for name in (
                *mine.counters,
                *(each for each in its.counters if each not in mine.counters),
            )
        }
        held = Metrics(mine.rows + its.rows, mine.bytes + its.bytes, most, counters)
        return OperatorStatus(self.name, flow, held)

    def save(self) -> Tree:
        return [self.name, list(astuple(self.flow)), list(astuple(self.held))]

    @staticmethod
    def load(saved: Tree) -> OperatorStatus:
        name, flow, held = saved
        return OperatorStatus(name, Traffic(*flow), Metrics(*held))


class Measured:
    """Hosts call operators through this."""

    def __init__(
        self, operator: Operator, name: str, timer: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.operator = operator
        self.name = name
        self.flow = Traffic()
        self.ports: dict[int, PortTraffic] = {}
        self._timer = timer

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        begin = self._timer()
        items = self.operator.on_batch(port, batch)
        took, rows = self._timer() - begin, batch.num_rows
        flow, own = self.flow, self.ports.get(port)
        if own is None:
            own = self.ports[port] = PortTraffic()
        flow.rows_in += rows
        flow.nanoseconds += took
        flow.calls += 1
        own.rows += rows
        own.batches += 1
        own.nanoseconds += took
        if not isinstance(items, list):
            return self._one_by_one(iter(items), own)
        for item in items:  # not called for each: that would be felt where tuples come alone
            if isinstance(item, Batch):
                rows = item.num_rows
                own.results += rows
                flow.rows_out += rows
            elif isinstance(item, LateRows):
                flow.late += item.batch.num_rows
        return items

    def pass_over(self, rows: int) -> None:
        """Rows that were not for it, and were kept from it."""
        self.flow.rows_in += rows
        own = self.ports.get(0)
        if own is None:
            own = self.ports[0] = PortTraffic()
        own.rows += rows

    def _one_by_one(self, items: Iterator[Item], own: PortTraffic) -> Iterator[Item]:
        """Items that are made when they are taken."""
        while True:
            begin = self._timer()
            item = next(items, None)
            took = self._timer() - begin
            self.flow.nanoseconds += took
            own.nanoseconds += took
            if item is None:
                return
            if isinstance(item, Batch):
                own.results += item.num_rows
            self._count(item)
            yield item

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        flow, timer = self.flow, self._timer
        begin = timer()
        items = self.operator.on_progress(port, progress)
        flow.nanoseconds += timer() - begin
        flow.calls += 1
        for item in items:
            if isinstance(item, Batch):
                flow.rows_out += item.num_rows
            elif isinstance(item, LateRows):
                flow.late += item.batch.num_rows
        return items

    def on_time(self, now: int) -> list[Item]:
        flow, timer = self.flow, self._timer
        begin = timer()
        items = self.operator.on_time(now)
        flow.nanoseconds += timer() - begin
        flow.calls += 1
        for item in items:
            self._count(item)
        return items

    def _count(self, item: Item) -> None:
        if isinstance(item, Batch):
            self.flow.rows_out += item.num_rows
        elif isinstance(item, LateRows):
            self.flow.late += item.batch.num_rows

    def status(self) -> OperatorStatus:
        return OperatorStatus(self.name, self.flow, self.operator.metrics())

    def save(self) -> Tree:
        """What has been counted."""
        ports = [[port, *astuple(each)] for port, each in self.ports.items()]
        return {"flow": list(astuple(self.flow)), "ports": ports}

    def load(self, saved: Tree) -> None:
        self.flow = Traffic(*saved["flow"])
        self.ports = {port: PortTraffic(*counts) for port, *counts in saved["ports"]}
