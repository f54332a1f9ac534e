"""An operator that is looked at now and then, to find out whether another would be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.schema import Field
from penstock.operators.joins.multiway.containing_join import ContainingJoin
from penstock.operators.joins.multiway.multiway_join import MultiwayJoin
from penstock.operators.measured import PortTraffic
from penstock.optimizer.adapting.better_join import better_join, can_change_join
from penstock.optimizer.adapting.better_window import better_window, can_change_window
from penstock.optimizer.adapting.observations import Better, Observations, ObservedInput
from penstock.optimizer.dataflow.join_statistics import JoinStatistics, statistics_of
from penstock.physical.node import PhysicalNode
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.joins import Join
from penstock.runs.adapting.at_work import AtWork
from penstock.state.chunks import Tree

_SAMPLE = 4096  # tuples of each input


def can_change(node: PhysicalNode) -> bool:
    """Whether there are others with the same answer, and nobody has asked for this one."""
    if can_change_join(node):
        return True
    return can_change_window(node) and isinstance(_attributes(node)[0], Column)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Counters at one moment."""

    ports: tuple[PortTraffic, ...]
    bounds: tuple[Bound, ...]
    results: int
    nanoseconds: int


class Watched:
    """`looked` is the time that a look took, in nanoseconds, the last time that there was anything
    to see; after one without, the operator `rests_until` it has worked so long altogether."""

    def __init__(self, node: AtWork) -> None:
        self.node = node
        self.looked = 2_000_000
        self.rests_until = 0.0
        self.agreed = 0  # looks in a row that have found the same to be better
        self.found: str = ""
        self._planned: JoinStatistics | None = None
        self._names = [_qualified(each) for each in _attributes(node.node)]
        self._seen = _Seen(tuple(PortTraffic() for _ in self._names), (), 0, 0)

    @property
    def worked(self) -> int:
        """Nanoseconds since the last look."""
        return self.total_work - self._seen.nanoseconds

    @property
    def total_work(self) -> int:
        """Nanoseconds."""
        return self.node.measured.flow.nanoseconds

    @property
    def came(self) -> int:
        """Tuples since the last look."""
        return self.node.measured.flow.rows_in - sum(each.rows for each in self._seen.ports)

    def prepare(self) -> None:
        """Find out what had been expected: once, so it says nothing about what looks take."""
        join = self.node.node.logical
        if self._planned is None and isinstance(join, Join):
            self._planned = statistics_of(join)

    def look(self) -> Better | None:
        """What would be best by what was seen since the last look; None if progress has not come
        any further on one of the inputs."""
        before, now = self._seen, self._now()
        if not before.bounds:
            self._seen = now
            return None
        ticks = [now_ - then for now_, then in zip(now.bounds, before.bounds, strict=True)]
        if not all(0 < each < END for each in ticks):
            return None
        self._seen = now
        inputs = tuple(
            ObservedInput(
                own.rows - then.rows,
                own.batches - then.batches,
                float(ticks[port]),
                self._disorder(port),
                self._sample(port),
            )
            for port, (own, then) in enumerate(zip(now.ports, before.ports, strict=True))
        )
        observed = Observations(inputs, now.results - before.results)
        node = self.node.node
        if isinstance(node.logical, WindowAggregate):
            return better_window(node, observed)
        self.prepare()
        assert self._planned is not None
        better, self._measured = better_join(node, observed, self._planned)
        return better

    def save(self) -> Tree:
        """What was seen, for somebody who goes on with the operator elsewhere."""
        seen = self._seen
        return {
            "measured": self.node.measured.save(),
            "ports": [list(astuple(each)) for each in seen.ports],
            "seen": [list(seen.bounds), seen.results, seen.nanoseconds],
            "found": [self.looked, self.agreed, self.found],
        }

    def load(self, saved: Tree) -> None:
        self.node.measured.load(saved["measured"])
        ports = tuple(PortTraffic(*each) for each in saved["ports"])
        bounds, results, nanoseconds = saved["seen"]
        self._seen = _Seen(ports, tuple(bounds), results, nanoseconds)
        self.looked, self.agreed, self.found = saved["found"]

    def begin_anew(self) -> None:
        """What has come so far says nothing about what is best."""
        self._seen, self.agreed = self._now(), 0

    def changed(self) -> None:
        """The operator has been exchanged: what it was decided by is what is expected from now."""
        self.agreed = 0
        if self._planned is not None:
            self._planned = self._measured

    def _now(self) -> _Seen:
        measured = self.node.measured
        ports = tuple(
            replace(measured.ports.get(port, PortTraffic())) for port in range(len(self._names))
        )
        bounds = tuple(self._bound(port) for port in range(len(self._names)))
        known = bounds if BEGINNING not in bounds else ()
        return _Seen(ports, known, measured.flow.rows_out, measured.flow.nanoseconds)

    def _bound(self, port: int) -> Bound:
        told = self.node.told(port)
        if told is None:
            return BEGINNING
        return END if told.ended else told.bounds.get(self._names[port], BEGINNING)

    def _disorder(self, port: int) -> float:
        """How far the promise is behind the newest tuple, in ticks."""
        told = self.node.told(port)
        assert told is not None
        high = told.high.get(self._names[port], BEGINNING)
        return max(0.0, float(high - self._bound(port))) if high != BEGINNING else 0.0

    def _sample(self, port: int) -> pa.RecordBatch | None:
        operator = self.node.operator
        if not isinstance(operator, MultiwayJoin | ContainingJoin):
            return None
        return sample(list(operator.kept(port)))


def sample(kept: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Some rows, each as likely as any other; the same ones for the same batches."""
    rows = sum(each.num_rows for each in kept)
    if not rows:
        return None
    if rows <= _SAMPLE:
        return pa.concat_batches(kept)
    chosen = np.sort(np.random.default_rng(rows).integers(0, rows, _SAMPLE))
    ends = np.cumsum([each.num_rows for each in kept])
    begins = ends - [each.num_rows for each in kept]
    cuts = np.searchsorted(chosen, ends)
    spans = zip(kept, begins.tolist(), [0, *cuts[:-1].tolist()], cuts.tolist(), strict=True)
    return pa.concat_batches([each.take(pa.array(chosen[a:b] - at)) for each, at, a, b in spans])


def _attributes(node: PhysicalNode) -> tuple[Column, ...]:
    logical = node.logical
    if isinstance(logical, Join):
        return logical.attributes
    assert isinstance(logical, WindowAggregate)
    return (logical.attribute,)  # type: ignore[return-value]


def _qualified(column: Column) -> str:
    return Field(column.name, column.type, column.relation).qualified
