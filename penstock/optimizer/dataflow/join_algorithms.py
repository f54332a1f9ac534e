"""What the algorithms of a join of two streams take, in the units that orders of joins are chosen
by, and which of them is taken.

All of them join as the OA-Join does.  Those whose results leave in order put these into it, which
takes time for every result; and those that let tuples wait before they are joined take time for
these as well, and keep fewer results.  So time speaks for waiting results, and state for waiting
tuples, the more results a tuple has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.model.types import Kind
from penstock.optimizer.dataflow.join_costs import JoinCosts
from penstock.optimizer.dataflow.join_statistics import statistics_of
from penstock.optimizer.dataflow.search import Search
from penstock.optimizer.dataflow.work import Work
from penstock.optimizer.settings import Settings
from penstock.plan.algorithms import JoinAlgorithm, Reason
from penstock.plan.join_choice import JoinChoice, JoinEstimate
from penstock.plan.nodes.joins import Join

BY_ONE = (JoinAlgorithm.OPIB, JoinAlgorithm.OPOB)
BY_BOTH = (JoinAlgorithm.ADAPTIVE_JOIN, JoinAlgorithm.FILTER_ORDER, JoinAlgorithm.SYNC_FILTER)
_ABOUT = 1.25  # times the least that the usual algorithm may take
_CELL = 8  # bytes
_ROW = 24  # beside its cells: a key, a time, a place in the order
_TICK = 1_000  # nanoseconds of a tick of a TIMESTAMP


def choose(join: Join, ports: tuple[int, ...], settings: Settings) -> JoinChoice:
    """For results in the order of the latest of some inputs' times; in any, if there are none.  The
    state of each of those that have an order can be that of another."""
    prediction = JoinPrediction(join, settings)
    order = ports or (0,)
    estimates = tuple(sorted(prediction.estimates(order), key=lambda each: each.time))
    if join.hint not in (None, JoinAlgorithm.MULTIWAY):
        return JoinChoice(join.hint, Reason.HINT, estimates)
    if not ports:
        return JoinChoice(JoinAlgorithm.OA, Reason.ANY_ORDER, estimates)
    right = BY_ONE if len(ports) == 1 else BY_BOTH
    if not prediction.measured:
        return JoinChoice(right[0], Reason.USUAL, estimates)
    return JoinChoice(*_cheapest(right, estimates, settings.state_budget), estimates)


def _cheapest(
    right: tuple[JoinAlgorithm, ...], estimates: tuple[JoinEstimate, ...], budget: float
) -> tuple[JoinAlgorithm, Reason]:
    """The least time among those whose state is within the budget, or about that; if none is, the
    least state."""
    known = {each.algorithm: each for each in estimates}
    within = [each for each in right if known[each].state <= budget]
    if not within:
        return min(right, key=lambda each: known[each].state), Reason.STATE
    least = min(within, key=lambda each: known[each].time)
    near = next(each for each in within if known[each].time <= _ABOUT * known[least].time)
    if near is not least:
        return near, Reason.NEAR
    over = any(known[each].time < known[least].time for each in right if each not in within)
    return least, Reason.BUDGET if over else Reason.TIME


@dataclass(frozen=True)
class JoinPrediction:
    join: Join
    settings: Settings

    @cached_property
    def costs(self) -> JoinCosts:
        return JoinCosts(self.join, statistics_of(self.join))

    @property
    def measured(self) -> bool:
        return all(each.measured for each in self.costs.statistics.inputs)

    def estimates(self, order: tuple[int, ...]) -> list[JoinEstimate]:
        """Of all algorithms.  Those by one input go by the first of `order`."""
        (first, *_), both = order, (0, 1)
        found = {
            JoinAlgorithm.OA: self._of((), None),
            JoinAlgorithm.OPOB: self._of((), first),
            JoinAlgorithm.OPIB: self._of((first,), first),
            JoinAlgorithm.SYNC_FILTER: self._of(both, None, ordered=True),
            JoinAlgorithm.FILTER_ORDER: self._of((), None, ordered=True),
        }
        # which of them it is depends on how busy the join is
        busy = self.load >= self.settings.alpha
        found[JoinAlgorithm.ADAPTIVE_JOIN] = found[
            JoinAlgorithm.FILTER_ORDER if busy else JoinAlgorithm.SYNC_FILTER
        ]
        return [JoinEstimate(each, *found[each]) for each in found]

    @cached_property
    def joining(self) -> float:
        """Nanoseconds for the tuples of a tick, whichever algorithm it is."""
        return Search(self.costs).flat().time

    @property
    def load(self) -> float:
        """The part of the time that joining takes.  What can be read at will is read as fast as it
        is joined."""
        inputs = self.costs.statistics.inputs
        live = all(each.ahead <= 0 for each in inputs) and any(each.spread for each in inputs)
        is_time = self.join.attributes[0].type.kind is Kind.TIMESTAMP
        return min(1.0, self.joining / _TICK) if live and is_time else 1.0

    def _of(
        self, waiting: tuple[int, ...], first: int | None, ordered: bool = False
    ) -> tuple[float, float]:
        """Nanoseconds a tuple, and bytes, if tuples of some inputs wait to be joined, and results
        for the time of the first, or of the later, to come."""
        costs, inputs = self.costs, self.costs.statistics.inputs
        results, everybody = self._results, frozenset((0, 1))
        columns = sum(each.columns for each in inputs)
        work = Work()
        if first is not None and waiting == (
            first,
        ):  # whoever comes finds nobody: tuples of the first find all
            idle = 1 - first
            looks = Search(costs).work(frozenset([idle]), (frozenset([first]),))
            work += Work(calls=-looks.calls)
        for port in waiting:
            own = inputs[port]
            batches = Work(releases=own.rate / own.batch)
            if own.disorder:  # what is in order leaves as it came; else, some with every promise
                promises = inputs[1 - port].rate / inputs[1 - port].batch
                batches += Work(waited=own.rate, cells=2 * own.rate * own.columns)
                batches += Work(batches=promises, calls=promises)
            work += batches
        state = sum(self._bytes(costs.kept(frozenset([p])), inputs[p].columns) for p in everybody)
        if first is not None or ordered:
            work += Work(waited=results, cells=2 * results * columns)
            work += Work(releases=sum(each.rate / each.batch for each in inputs))
            lasting = self._lasting(first)
            for port in waiting:
                state += self._bytes(inputs[port].rate * lasting, inputs[port].columns)
            if len(waiting) < (2 if first is None else 1):
                state += self._bytes(results * lasting, columns)
        tuples = sum(each.rate for each in inputs)
        return (self.joining + work.time) / tuples, state

    @property
    def _results(self) -> float:
        """Of a tick."""
        everybody = frozenset((0, 1))
        return sum(
            self.costs.rate(each) * self.costs.combinations(everybody, each) for each in everybody
        )

    def _lasting(self, first: int | None) -> float:
        """The ticks that something waits: until all inputs have come as far, and, by the time of
        one, until no partner of it can come."""
        inputs = self.costs.statistics.inputs
        late = max(max(each.disorder, 2 * each.spread) for each in inputs)
        return late + 1 + (0.0 if first is None else self.costs.reach(first, 1 - first))

    @staticmethod
    def _bytes(rows: float, columns: int) -> float:
        return rows * (_ROW + _CELL * columns)
