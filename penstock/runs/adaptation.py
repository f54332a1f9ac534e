"""Adaptation: operators of running queries are observed, and exchanged when the input has changed
so that others are better."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from time import perf_counter_ns
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernel.build import operator_for
from penstock.kernel.joins.containing_join import ContainingJoin
from penstock.kernel.joins.multiway_join import MultiwayJoin
from penstock.kernel.operator import Measured, Operator, PortTraffic, Progress
from penstock.kernel.state import Tree
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import Field
from penstock.optimizer.join_statistics import JoinStatistics, statistics_of
from penstock.optimizer.replanning import (
    Better,
    Observations,
    ObservedInput,
    better_join,
    better_window,
    can_change_join,
    can_change_window,
)
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import Join
from penstock.plan.physical import PhysicalNode
from penstock.runs.answer import Decision
from penstock.runs.run_options import Adaptation


class AtWork(Protocol):
    """An operator of a run that may be exchanged, in a graph or in a bucket."""

    node: PhysicalNode
    measured: Measured
    operator: Operator

    @property
    def name(self) -> str: ...

    @property
    def is_clear(self) -> bool:
        """Whether no item waits at the operator, so that another one can take over."""
        ...

    def told(self, port: int) -> Progress | None:
        """Progress of an input, or None."""
        ...

    def exchange(self, node: PhysicalNode, operator: Operator) -> None:
        """Continue with another operator that gives the same answer, from the state of this one."""
        ...


# Observation of one operator, to find out whether another would be better.

_SAMPLE = 4096  # tuples of each input


def can_change(node: PhysicalNode) -> bool:
    """Whether another operator gives the same answer, and the query does not ask for this one."""
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
    """Observations of an operator. `looked` is the time that a check took, in nanoseconds, the last
    time that it had a result; after one without, the operator `rests_until` it has worked so long
    altogether."""

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
        """Nanoseconds of work since the last check."""
        return self.total_work - self._seen.nanoseconds

    @property
    def total_work(self) -> int:
        """Nanoseconds of work in total."""
        return self.node.measured.flow.nanoseconds

    @property
    def came(self) -> int:
        """Tuples since the last check."""
        return self.node.measured.flow.rows_in - sum(each.rows for each in self._seen.ports)

    def prepare(self) -> None:
        """Compute the expectations, once, so that it does not count as a cost of checks."""
        join = self.node.node.logical
        if self._planned is None and isinstance(join, Join):
            self._planned = statistics_of(join)

    def look(self) -> Better | None:
        """Choose the best operator by the observations since the last check; None if one of the
        inputs has made no progress."""
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
        """Return the observations for a run that restores the operator."""
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
        """Discard the observations so far: they say nothing about the best operator now."""
        self._seen, self.agreed = self._now(), 0

    def changed(self) -> None:
        """Record that the operator has been exchanged: the reasons for it are the expectations from
        now on."""
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
        """Distance of the bound from the newest tuple, in ticks."""
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
    """Sample rows uniformly; the same rows for the same batches."""
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


# Exchange of operators while queries run, when the input has changed so that others are better.
#
# An operator is checked when it has worked long enough for a check to be cheap, and when progress
# has been made since the last one: no item waits in its part of the graph then, or for its bucket.
# Another one has to be better by a margin, in several checks in a row. Then it adopts the state,
# and continues.

_LOG = logging.getLogger("penstock")
_REMEMBERED = 1000  # decisions


class Adapting:
    """Checks operators that have worked long enough, exchanges them, and records the decisions."""

    def __init__(self, adaptation: Adaptation, clock: Clock) -> None:
        self.decisions: deque[Decision] = deque(maxlen=_REMEMBERED)
        self.looks = 0
        self._adaptation = adaptation
        self._clock = clock

    def watched(self, node: AtWork) -> Watched | None:
        """Observe a node, if there are alternatives; None otherwise."""
        return Watched(node) if self._adaptation.on and can_change(node.node) else None

    def look(self, several: list[Watched]) -> None:
        """Check those operators of a part of the graph that have worked long enough."""
        told = self._adaptation
        for each in several:
            rested = each.total_work >= each.rests_until
            if rested and each.worked * told.share >= each.looked and each.came >= told.rows:
                self._check(each)

    def _check(self, watched: Watched) -> None:
        node = watched.node
        if not node.is_clear:
            return
        self.looks += 1
        begun = perf_counter_ns()
        try:
            watched.prepare()
            begun = perf_counter_ns()
            found = watched.look()
        except (PenstockError, pa.ArrowException) as error:  # of a sample; the run may go on
            _LOG.debug("%s is left as it is: %s", node.name, error)
            found = None
        took = perf_counter_ns() - begun
        if found is None:  # which took little, and says nothing about a look that finds anything
            watched.rests_until = watched.total_work + took / self._adaptation.share
            return
        watched.looked = took
        if found.before == found.after or found.times < self._adaptation.margin:
            watched.agreed = 0
            return
        watched.agreed = watched.agreed + 1 if watched.found == found.after else 1
        watched.found = found.after
        if watched.agreed >= self._adaptation.agreeing:
            self._decide(watched, found)

    def _decide(self, watched: Watched, found: Better) -> None:
        times = found.now, found.then
        self.change(watched, found.node, found.before, found.after, found.because, times)

    def change(
        self,
        watched: Watched,
        planned: PhysicalNode,
        before: str,
        after: str,
        because: str,
        times: tuple[float, float] | None = None,
    ) -> None:
        """Exchange an operator, and record the decision."""
        node, begun = watched.node, perf_counter_ns()
        self.exchange(node, planned)
        watched.changed()
        now, then = times or (None, None)
        tuples, took = node.measured.flow.rows_in, perf_counter_ns() - begun
        decision = Decision(node.name, tuples, before, after, now, then, because, took)
        self.decisions.append(decision)
        _LOG.info("%s", decision)

    def exchange(self, node: AtWork, planned: PhysicalNode) -> None:
        """Continue a node with another operator, if no item waits there."""
        node.exchange(planned, operator_for(planned, self._clock))
