"""Joins whose results leave in order: Sync-Filter, Filter-Order and Adaptive of the Nile paper,
and OPIB-Join and OPOB-Join of section 7.3.

They share `OrderedJoin`, an OA-Join with buffers before and behind it, and differ in which of them
wait. `ResultOrder` says in which order results leave, and `JoinLoad` measures for the Adaptive
join.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from math import exp

import numpy as np
import pyarrow as pa

from penstock.errors import CheckpointError, PlanError
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.groups.group_by import InTime
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.joins.pairing import JoinState, Rows
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Base,
    Item,
    LateRows,
    Metrics,
    OpenResults,
    Progress,
    at_once,
    bytes_of,
)
from penstock.kernel.order import WaitingRows
from penstock.kernel.state import ChunkStore, Within
from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import ticks_of
from penstock.model.types import Field
from penstock.plan.expressions import Column
from penstock.plan.identity import origins
from penstock.plan.join_windows import JoinWindow
from penstock.plan.nodes.join import Join


class ResultOrder:
    """Order of results by the latest of some of their times.

    The times are of one input (the thesis puts results in the order of the first), or of all (the
    Nile paper). An input that is itself a join has several times.
    """

    def __init__(self, node: Join, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self.places = tuple(each.position(node.schema) for each in columns)
        width = len(node.branches[0].schema)
        self._by_port = tuple(
            tuple(
                _name(node, column)
                for column, place in zip(columns, self.places, strict=True)
                if (place >= width) is bool(port)
            )
            for port in range(2)
        )
        self.ports = tuple(port for port, names in enumerate(self._by_port) if names)
        window = node.window.between(0, 1)
        assert window is not None
        left, right = (_name(node, each) for each in node.attributes)
        self._attributes = (left, right)
        self._pairs: list[tuple[str, str, JoinWindow]] = [(left, right, window)]
        for each in node.also:
            self._pairs.append((_name(node, each.left), _name(node, each.right), each.window))
        times = dict.fromkeys(name for one, other, _ in self._pairs for name in (one, other))
        fields = {each.qualified: each for each in node.schema}
        self._times = [(name, ticks_of(fields[name].type)) for name in times]

    def ticks(self, rows: pa.RecordBatch) -> Ints:
        """Position of results in the order, as ticks."""
        pairs = zip(self._columns, self.places, strict=True)
        return reduce(np.maximum, [to_ticks(rows.column(p), c.type) for c, p in pairs])

    def complete(self, given: Sequence[Progress]) -> Bound:
        """Tick below which no later result comes, given the bounds of the inputs: a later result
        has a later tuple of one of them.
        """
        return min(self._later(port, given) for port in range(2))

    def _later(self, port: int, given: Sequence[Progress]) -> Bound:
        """Lowest position in the order of a result with a later tuple of a port."""
        own = self._by_port[port]
        if own:
            return max(_bound(given[port], name) for name in own)
        attribute = self._attributes[port]
        bound = _bound(given[port], attribute)
        return max(self._lowest(name, attribute, bound) for name in self._by_port[1 - port])

    def promised(self, last: Bound) -> dict[str, Bound]:
        """Bounds on the times of results that come after a tick in the order, by name."""
        names = [name for names in self._by_port for name in names]
        found: dict[str, Bound] = {}
        for name, room in self._times:
            bound = min(self._lowest_of(name, other, last) for other in names)
            if bound >= room.low:
                found[name] = min(bound, room.high)
        return found

    def _lowest_of(self, name: str, other: str, bound: Bound) -> Bound:
        """Lower bound on a time where another one is at or above a bound, directly or through a
        time of the other input.
        """
        found = self._lowest(name, other, bound)
        for one, two, _ in self._pairs:
            between = {one, two} - {other}
            if len(between) == 1:
                (way,) = between
                found = max(found, self._lowest(name, way, self._lowest(way, other, bound)))
        return found

    def _lowest(self, name: str, other: str, bound: Bound) -> Bound:
        """Lower bound on a time that fits one of the other input at or above a bound."""
        if name == other or bound in (BEGINNING, END):
            return bound
        found: Bound = BEGINNING
        for left, right, window in self._pairs:
            if (left, right) == (name, other):
                found = max(found, window.partner_bounds_of_right(int(bound))[0])
            elif (left, right) == (other, name):
                found = max(found, window.partner_bounds(int(bound))[0])
        return found


def _bound(given: Progress, name: str) -> Bound:
    return END if given.ended else given.bounds.get(name, BEGINNING)


def _name(node: Join, column: Column) -> str:
    return node.schema.fields[column.position(node.schema)].qualified


# The common part of all joins whose results leave in order.
#
# Tuples of an input may wait before they are joined (input-buffered), and results after it
# (output-buffered); these joins differ in which of them wait.  The joining itself is done by an
# OA-Join inside, which receives bounds only as far as no waiting tuple is below them.

_PIECE = 1 << 16  # rows of an output batch


class OrderedJoin(Base):
    """Base of the ordered joins: an INNER join of two inputs that never retract."""

    def __init__(self, node: Join, by: Sequence[Column], any_order: bool = False) -> None:
        """Order the results by the latest of the times `by`; with `any_order`, `load` adopts the
        order of the saved state.
        """
        self._node, self._any_order = node, any_order
        timed = list(zip(node.attributes, node.branches, strict=True))
        inputs = zip(node.times, node.branches, strict=True)
        self._in_time = [InTime(list(times), each) for times, each in inputs]
        self._attributes = [Field(a.name, a.type, a.relation).qualified for a in node.attributes]
        self._types = [attribute.type for attribute in node.attributes]
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._columns = [[each.qualified for each in branch.schema] for branch in node.branches]
        self._output = [each.qualified for each in node.schema]
        self._origins = [*(origins(each) for each in node.branches), origins(node)]
        self.order = ResultOrder(node, by)
        self.join = OaJoin(node)
        self.waiting = (WaitingRows(), WaitingRows())  # tuples that have not been joined
        self.held = WaitingRows()  # results that have not been given out
        self._given = [Progress(), Progress()]  # by the inputs
        self._inside_bounds: list[Progress | None] = [None, None]  # to the join inside
        self._inside = Progress()  # what it has promised
        self._released: Bound = BEGINNING
        self._promised = Progress()

    @abstractmethod
    def waits(self, port: int) -> bool:
        """Whether tuples of an input wait before they are joined."""

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        if self.waits(port):
            given, ticks, late = self._in_time[port].split_signed(batch)
            yield from late
            self.waiting[port].add(given.rows, ticks[0])
        else:
            yield from self._join(port, batch)

    def _join(self, port: int, batch: Batch) -> Iterator[LateRows]:
        """Join tuples with those joined before; results wait for their turn."""
        for item in self.join.on_batch(port, batch):
            if isinstance(item, Batch):
                self.held.add(item.rows, self.order.ticks(item.rows))
            elif isinstance(item, LateRows):
                yield item

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._given[port] = progress
        complete = self.order.complete(self._given)
        for number, waiting in enumerate(self.waiting):
            ready = waiting.take(complete)
            if ready is not None:
                yield from self._join(number, Batch(ready.rows))
        self._advance_inside()
        released = self.held.take(complete)
        self._released = max(complete, self._released)
        if released is not None:
            for begin in range(0, released.rows.num_rows, _PIECE):
                yield Batch(released.rows.slice(begin, _PIECE))
        promised = self._promise()
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, self._inside.high, promised.ended, joint=promised.joint)

    def bounds(self) -> list[Bound]:
        """Bounds of the inputs on their times."""
        pairs = zip(self._in_time, self._given, strict=True)
        return [in_time.promised(given)[0] for in_time, given in pairs]

    def _advance_inside(self) -> None:
        """Advance the join inside to the bounds that hold for the tuples it will still receive."""
        for port, (given, bound) in enumerate(zip(self._given, self.bounds(), strict=True)):
            lowest = self.waiting[port].lowest()
            if lowest == END:
                promised = given
            else:
                promised = Progress({self._attributes[port]: min(bound, lowest)}, given.high)
            if promised != self._inside_bounds[port]:
                self._inside_bounds[port] = promised
                for item in self.join.on_progress(port, promised):
                    assert isinstance(item, Progress)
                    self._inside = item

    def _promise(self) -> Progress:
        """Progress of the results: the bounds of the join inside, limited by the results that
        wait. Bounds never fall below those promised before, which hold for the waiting results,
        too.
        """
        inside = self._inside
        if inside.ended:
            return Progress(ended=True)
        promised: Mapping[str, Bound] = inside.bounds
        if len(self.held):
            waiting = self.order.promised(self._released)
            promised = {n: min(waiting[n], b) for n, b in promised.items() if n in waiting}
        bounds = dict(self._promised.bounds)
        for name, bound in promised.items():
            bounds[name] = max(bound, bounds.get(name, BEGINNING))
        return Progress(bounds, joint=() if len(self.held) else inside.joint)

    # --- what is held ----------------------------------------------------------------------------

    def rows_held(self) -> int:
        return self.join.rows_held() + sum(map(len, self.waiting)) + len(self.held)

    def metrics(self) -> Metrics:
        return Metrics(self.rows_held(), bytes_of(vars(self)), counters=self.counters())

    def counters(self) -> dict[str, int]:
        return {
            "tuples waiting to be joined": sum(map(len, self.waiting)),
            "results waiting for their turn": len(self.held),
        }

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.join.save(Within(store, "join/"))
        for port, waiting in enumerate(self.waiting):
            waiting.save(Within(store, f"{port}/"))
        self.held.save(Within(store, "held/"))
        *inputs, outside = self._origins
        given = [each.save(own) for each, own in zip(self._given, inputs, strict=True)]
        inside, promised = self._inside.save(outside), self._promised.save(outside)
        order = {"places": list(self.order.places), "released": self._released}
        store.put("run", {"given": given, "inside": inside, "promised": promised, **order})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        places = saved.get("places")
        if places is None:  # earlier versions knew the attributes alone
            attributes = [self._node.attributes[port] for port in saved["ports"]]
            places = [each.position(self._node.schema) for each in attributes]
        if self._any_order:
            fields = [self._node.schema.fields[place] for place in places]
            self.order = ResultOrder(self._node, [Column.of(each) for each in fields])
        if tuple(places) != self.order.places:
            raise CheckpointError(
                "the results of a join that wait in the checkpoint are in another order",
                hint="another checkpoint, or delete the directory to start over",
            )
        self.join.load(Within(store, "join/"))
        for port, waiting in enumerate(self.waiting):
            waiting.load(Within(store, f"{port}/"), self._columns[port])
        self.held.load(Within(store, "held/"), self._output)
        *inputs, outside = self._origins
        pairs = zip(saved["given"], inputs, strict=True)
        self._given = [Progress.load(each, own) for each, own in pairs]
        self._inside = Progress.load(saved["inside"], outside)
        self._promised = Progress.load(saved["promised"], outside)
        self._released = saved["released"]

    def export(self) -> JoinState:
        left, right = (_all(each) for each in self.waiting)
        given, other = self._given
        return JoinState(
            self.join.export().kept, (left, right), _all(self.held), (given, other), self._promised
        )

    def adopt(self, state: JoinState) -> None:
        """Take over the state of another join; tuples that waited there wait here, or are joined
        at once.
        """
        nothing: tuple[Rows, Rows] = ((), ())
        no_progress = (Progress(), Progress())
        self.join.adopt(JoinState(state.kept, nothing, (), no_progress, Progress()))
        for rows in state.results:
            self.held.add(rows, self.order.ticks(rows))
        self._given = list(state.progress)
        self._promised = state.promised
        for port, several in enumerate(state.waiting):
            for rows in several:
                if self.waits(port):
                    column = rows.column(self._places[port])
                    self.waiting[port].add(rows, to_ticks(column, self._types[port]))
                else:
                    list(self._join(port, Batch(rows)))  # none of them is late
        self._advance_inside()


def _all(waiting: WaitingRows) -> Rows:
    found = waiting.all()
    return () if found is None else (found.rows,)


# The load of a join, c·|w|·λ1·λ2 in the Nile paper, as measured.
#
# To join a tuple of a stream takes c·|w|·λ, with the rate λ of the other stream.  So the product is
# the time that a tuple takes, times the rate of such tuples, and is the same for both streams.
# Here it is the mean of both over the last seconds, weighted by the numbers of tuples joined.

SECOND = 1_000_000_000  # nanoseconds
_ENOUGH = 32  # tuples that have to be joined before the load is known
_BEGINNING = SECOND  # time that has to pass before the load is known
_MEMORY = 20 * SECOND  # age at which measurements have decayed to 1/e


class JoinLoad:
    """Measured load of a join. Times are in nanoseconds, by the timer of the caller."""

    def __init__(self) -> None:
        self.load: float | None = None  # nothing is known yet
        self._last: int | None = None  # when it was looked at
        self._time = 0.0  # this and all that follow: what is longer ago counts less
        self._came = [0.0, 0.0]
        self._joined = [0.0, 0.0]
        self._busy = [0.0, 0.0]

    def came(self, port: int, tuples: int, now: int) -> None:
        self._advance_to(now)
        self._came[port] += tuples

    def joined(self, port: int, tuples: int, took: int) -> None:
        self._joined[port] += tuples
        self._busy[port] += took

    def _advance_to(self, now: int) -> None:
        passed = 0 if self._last is None else now - self._last
        self._last = now
        if passed > 0:
            left = exp(-passed / _MEMORY)
            self._time = self._time * left + passed
            for several in (self._came, self._joined, self._busy):
                several[:] = (each * left for each in several)

    @property
    def rates(self) -> list[float]:
        """Tuples a second, for both inputs."""
        return [each * SECOND / self._time if self._time else 0.0 for each in self._came]

    @property
    def costs(self) -> list[float]:
        """Nanoseconds to join a tuple, for both inputs."""
        pairs = zip(self._busy, self._joined, strict=True)
        return [busy / joined if joined else 0.0 for busy, joined in pairs]

    def measure(self, now: int) -> float | None:
        """Update the load and return it; None as long as too little has been measured."""
        self._advance_to(now)
        joined = sum(self._joined)
        known = self.load is not None or (joined >= _ENOUGH and self._time >= _BEGINNING)
        if known and joined > 0:
            each = zip(self.rates, self.costs, self._joined, strict=True)
            self.load = sum(rate * cost * own for rate, cost, own in each) / joined / SECOND
        return self.load


# The Filter-Order join of the Nile paper, section 5: tuples are joined as they come, and results
# wait in a hold buffer until the bounds of both inputs have passed them.
#
# So the work of joining is done while the slower input is waited for.


class FilterOrderJoin(OrderedJoin):
    """Filter-Order join: join at once, and order the results.

    The order is that of the latest of the times `by`; without it, of the times of both inputs, or
    that of the state that is loaded.
    """

    def __init__(self, node: Join, by: Sequence[Column] = ()) -> None:
        super().__init__(node, by or node.attributes, any_order=not by)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return False


# The order-preserving, input-buffered join of section 7.3 (OPIB-Join): tuples of the input that
# results are in the order of wait until all of their partners have come, and are joined in order.
#
# It keeps tuples where the output-buffered join keeps results, so it takes less room where a tuple
# has many partners.


class OpibJoin(OrderedJoin):
    """OPIB-Join: results in the order of the time of one input, whose tuples wait; the thesis
    takes the first input.
    """

    def __init__(self, node: Join, port: int | None = None) -> None:
        """Without a port, take the first one, or that of the state that is loaded."""
        super().__init__(node, node.attributes[port or 0 :][:1], any_order=port is None)

    def waits(self, port: int) -> bool:
        return port in self.order.ports


# The order-preserving, output-buffered join of section 7.3 (OPOB-Join): tuples are joined as they
# come, and results wait until all that belong before them have left.


class OpobJoin(OrderedJoin):
    """OPOB-Join: results in the order of the time of one input, and results wait; the thesis takes
    the first input.
    """

    def __init__(self, node: Join, port: int | None = None) -> None:
        """Without a port, take the first one, or that of the state that is loaded."""
        super().__init__(node, node.attributes[port or 0 :][:1], any_order=port is None)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return False


# The Sync-Filter join of the Nile paper, section 4: tuples of both inputs are joined in the order
# of their times, so each waits until the bound of the other input has passed it.
#
# The paper waits for the next tuple of the other stream instead of its bound; over streams in
# order, that is the same.


class SyncFilterJoin(OrderedJoin):
    """Sync-Filter join: order the tuples of both inputs, and join them in order.

    The order is that of the latest of the times `by`; without it, of the times of both inputs, or
    that of the state that is loaded.
    """

    def __init__(self, node: Join, by: Sequence[Column] = ()) -> None:
        super().__init__(node, by or node.attributes, any_order=not by)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return True


# The Adaptive join of the Nile paper, section 6: Sync-Filter under low load, and Filter-Order when
# joining takes so much time that it is better done while waiting.

ALPHA = 0.3  # Filter-Order answers a quarter sooner there: α / (1 + α)
_PATIENCE = 5 * SECOND  # between two decisions: measurements are of the last seconds


class JoinMode(Enum):
    """Mode of an Adaptive join. On the way back from Filter-Order to Sync-Filter, waiting results
    are drained: the steps E to L of the paper.
    """

    SYNC_FILTER = "Sync-Filter"
    FILTER_ORDER = "Filter-Order"
    DRAINING = "draining"


class AdaptiveJoin(OrderedJoin):
    """Adaptive join: switches between Sync-Filter and Filter-Order by the measured load.

    Results are in the order of the latest of the times `by` in both modes. The mode depends on how
    long joining takes by a `timer`; the results do not.
    """

    def __init__(
        self,
        node: Join,
        alpha: float = ALPHA,
        timer: Callable[[], int] = time.perf_counter_ns,
        by: Sequence[Column] = (),
    ) -> None:
        """`alpha` is the load from which on tuples are joined before they are ordered."""
        if not 0 <= alpha < 1:
            raise PlanError(f"α of an adaptive join is {alpha}", expected="from 0 to below 1")
        super().__init__(node, by or node.attributes, any_order=not by)
        self.alpha = alpha
        self._timer = timer
        self.measured = JoinLoad()
        self.mode = JoinMode.SYNC_FILTER
        self._decided: int | None = None  # when
        self.switches = {JoinMode.FILTER_ORDER: 0, JoinMode.SYNC_FILTER: 0}

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return self.mode is not JoinMode.FILTER_ORDER

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        self.measured.came(port, batch.num_rows, self._timer())
        return super().on_batch(port, batch)

    def _join(self, port: int, batch: Batch) -> Iterator[LateRows]:
        begin = self._timer()
        late = list(super()._join(port, batch))
        self.measured.joined(port, batch.num_rows, self._timer() - begin)
        yield from late

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        now = self._timer()
        load = self.measured.measure(now)
        if load is not None and (self._decided is None or now - self._decided >= _PATIENCE):
            self._decided = now
            self._switch(load >= self.alpha)
        made = super().on_progress(port, progress)
        if self.mode is JoinMode.DRAINING and not len(self.held):
            self.mode = JoinMode.SYNC_FILTER
        return made

    def _switch(self, joins_first: bool) -> None:
        if joins_first is (self.mode is JoinMode.FILTER_ORDER):
            return
        if joins_first:
            self.mode = JoinMode.FILTER_ORDER
            for port, waiting in enumerate(self.waiting):
                ready = waiting.take_all()
                if ready is not None:
                    list(self._join(port, Batch(ready.rows)))  # none of them is late
            self.switches[JoinMode.FILTER_ORDER] += 1
        else:
            self.mode = JoinMode.DRAINING
            self.switches[JoinMode.SYNC_FILTER] += 1

    def counters(self) -> dict[str, int]:
        return {
            **super().counters(),
            "switches to Filter-Order": self.switches[JoinMode.FILTER_ORDER],
            "switches to Sync-Filter": self.switches[JoinMode.SYNC_FILTER],
            "load in percent": round(100 * (self.measured.load or 0)),
        }

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Save the mode and the numbers of switches; measurements begin afresh with every run."""
        super().save(store)
        switches = [self.switches[each] for each in (JoinMode.FILTER_ORDER, JoinMode.SYNC_FILTER)]
        store.put("mode", {"mode": self.mode.value, "switches": switches})

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        saved = store.get("mode")
        if saved is not None:
            self.mode = JoinMode(saved["mode"])
            modes = (JoinMode.FILTER_ORDER, JoinMode.SYNC_FILTER)
            self.switches = dict(zip(modes, saved["switches"], strict=True))

    def adopt(self, state: JoinState) -> None:
        """Take over the state of another join; its waiting results are drained, its waiting tuples
        keep waiting.
        """
        super().adopt(state)
        if len(self.held):
            self.mode = JoinMode.DRAINING
