"""Operators are exchanged while queries run, when what comes has changed so that others are better.

An operator is looked at when it has worked long enough for a look to be cheap, and when progress
has been made since the last one: nothing waits in its part of the graph then, or for its bucket.
Another one has to be better by a margin, several looks in a row.  Then it adopts the state, and
goes on.
"""

from __future__ import annotations

import logging
from collections import deque
from time import perf_counter_ns

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.model.clock import Clock
from penstock.operators.build import operator_for
from penstock.optimizer.adapting.observations import Better
from penstock.physical.node import PhysicalNode
from penstock.runs.adapting.adaptation import Adaptation
from penstock.runs.adapting.at_work import AtWork
from penstock.runs.adapting.decision import Decision
from penstock.runs.adapting.watched import Watched, can_change

_LOG = logging.getLogger("penstock")
_REMEMBERED = 1000  # decisions


class Adapting:
    def __init__(self, adaptation: Adaptation, clock: Clock) -> None:
        self.decisions: deque[Decision] = deque(maxlen=_REMEMBERED)
        self.looks = 0
        self._adaptation = adaptation
        self._clock = clock

    def watched(self, node: AtWork) -> Watched | None:
        """A node that is worth looking at."""
        return Watched(node) if self._adaptation.on and can_change(node.node) else None

    def look(self, several: list[Watched]) -> None:
        """At those operators of a part of the graph that have worked long enough."""
        told = self._adaptation
        for each in several:
            rested = each.total_work >= each.rests_until
            if rested and each.worked * told.share >= each.looked and each.came >= told.rows:
                self._look(each)

    def _look(self, watched: Watched) -> None:
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
        """Exchange an operator, and write down why."""
        node, begun = watched.node, perf_counter_ns()
        self.exchange(node, planned)
        watched.changed()
        now, then = times or (None, None)
        tuples, took = node.measured.flow.rows_in, perf_counter_ns() - begun
        decision = Decision(node.name, tuples, before, after, now, then, because, took)
        self.decisions.append(decision)
        _LOG.info("%s", decision)

    def exchange(self, node: AtWork, planned: PhysicalNode) -> None:
        """Let another operator go on for a node, when nothing waits there."""
        node.exchange(planned, operator_for(planned, self._clock))
