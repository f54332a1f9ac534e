"""The choice of the algorithm of sliding windows: the costs of their steps, the predictions of
equations 6.1 to 6.6, and the rule.

`python -m benchmarks.choice calibrate` measures the table of costs and prints it in this form:
every step alone, on one thread, in processor time, the least of several runs. "call" and "tuple"
come from folding 1 and 65,536 tuples, "group" from 1 and 100,000 groups. The numbers are of one
machine; on another they differ by a factor that most steps share, so the order of the algorithms
stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from math import gcd
from operator import add

from penstock.kernel.aggregates.build import build
from penstock.kernel.windows import window_costs
from penstock.model.types import Kind
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.optimizer.sizes import Sizes, sizes_of
from penstock.plan.algorithms import Algorithm, Choice, Estimate, Reason
from penstock.plan.nodes.aggregation import NamedAggregate, WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import Late, QueryPlan
from penstock.plan.window_kinds import MOST_KEPT, Sliding, per_tuple


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a step in nanoseconds: for a call, for each tuple, and for each group.

    >>> Cost(call=100, tuple=2, group=1).time(tuples=10, groups=5)
    125
    """

    call: float = 0.0
    tuple: float = 0.0
    group: float = 0.0

    def time(self, tuples: float = 0.0, groups: float = 0.0) -> float:
        return self.call + self.tuple * tuples + self.group * groups

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.call + other.call, self.tuple + other.tuple, self.group + other.group)


@dataclass(frozen=True, slots=True)
class Constants:
    """Costs of an aggregate: its steps, and the bytes of a partial result and of a tuple in it."""

    fold: Cost  # tuples into partial results; groups count if there are few to a tuple
    new: Cost  # partial results over nothing
    merge: Cost  # one partial result into another, or out of it
    finish: Cost  # the results of a window
    partial: float  # bytes of a group
    kept: float  # bytes of a tuple

    def __add__(self, other: Constants) -> Constants:
        return Constants(
            self.fold + other.fold,
            self.new + other.new,
            self.merge + other.merge,
            self.finish + other.finish,
            self.partial + other.partial,
            self.kept + other.kept,
        )


class Class(Enum):
    """Class of aggregates with similar costs."""

    COUNT = "differential, counting"
    WHOLE = "differential, over whole numbers"
    FRACTION = "differential, over fractions, which are added exactly"
    EXTREME = "distributive, not to be subtracted"
    HOLISTIC = "holistic: its partial results are its tuples"


# Every aggregation counts the rows of its groups; aggregates come on top of that.
ROWS = Constants(
    fold=Cost(1400, 1.3, 0.58),
    new=Cost(3200, 0, 0.15),
    merge=Cost(2600, 0, 0.13),
    finish=Cost(11000, 0, 0.64),
    partial=8,
    kept=0,
)
AGGREGATES: dict[Class, Constants] = {
    Class.COUNT: Constants(
        fold=Cost(1500, 0.63, 0.64),
        new=Cost(320, 0, 0.066),
        merge=Cost(810, 0, 0.4),
        finish=Cost(8300, 0, 0.81),
        partial=8,
        kept=0,
    ),
    Class.WHOLE: Constants(
        fold=Cost(4500, 6, 0),
        new=Cost(25000, 0, 0.9),
        merge=Cost(6100, 0, 0.93),
        finish=Cost(11000, 0, 3.1),
        partial=16,
        kept=0,
    ),
    Class.FRACTION: Constants(
        fold=Cost(28000, 30, 0),
        new=Cost(36000, 0, 1.9),
        merge=Cost(14000, 0, 2),
        finish=Cost(17000, 0, 450),
        partial=32,
        kept=0,
    ),
    Class.EXTREME: Constants(
        fold=Cost(14000, 71, 59),
        new=Cost(340, 0, 0.46),
        merge=Cost(9400, 0, 10),
        finish=Cost(9300, 0, 5),
        partial=17,
        kept=0,
    ),
    Class.HOLISTIC: Constants(
        fold=Cost(120000, 65, 10),
        new=Cost(51000, 0, 0),
        merge=Cost(36000, 31, 0),
        finish=Cost(110000, 37, 0),
        partial=0,
        kept=24,
    ),
}

ENCODE = Cost(20000, 27)  # a batch: its ticks, groups and arguments, and putting it in order
CUT = 8900.0  # the rows of one pane or window out of a batch
SKIP = 64.0  # skipping an empty pane
BUFFER = 73.0  # a buffered tuple, whenever windows are released: to join, to sort, to keep it
ADAPTIVE = Cost(110000, 38)  # on top of WID: a fold, and a tuple
LAZY = 63.0  # on top of a fold: a tuple of a sparse group
TWO_LEVEL = Cost(91000, 82)  # on top of panes: a batch, and a tuple
TAGGED = 32  # bytes of a buffered tuple, without what its aggregates need of it


# Predicted costs of every algorithm for an aggregation: equations 6.1 to 6.6 with measured
# constants.
#
# The constants of the equations are costs of a tuple or of a group.  Here a step also has a fixed
# cost, so its share is added: a of the equations is the cost of a fold, divided by the tuples that
# it folds at a time; b and c are those of a new and of a merged partial result, divided by its
# groups.  Reading tuples and releasing results costs the same for all, and is included.

_FEW = 8  # as in operators/scatter.py: below that many tuples to 8 groups, only theirs are touched
_SLOTS = 4096  # of the low level of two-level aggregation


def predict(node: WindowAggregate, sizes: Sizes) -> tuple[Estimate, ...]:
    """Estimates for all algorithms, in the order of `Algorithm`."""
    assert isinstance(node.window, Sliding)
    return _Prediction(node.window, node.aggregates, sizes).estimates()


def class_of(aggregate: NamedAggregate) -> Class:
    built, call = build(aggregate.call), aggregate.call
    if built.holistic:
        return Class.HOLISTIC
    if not built.differential:
        return Class.EXTREME
    if call.function.name == "count":
        return Class.COUNT
    exact = call.arguments[0].type.kind in (Kind.INT, Kind.BIGINT)
    return Class.WHOLE if exact else Class.FRACTION


@dataclass(frozen=True, slots=True)
class _Prediction:
    window: Sliding
    aggregates: tuple[NamedAggregate, ...]
    sizes: Sizes

    def estimates(self) -> tuple[Estimate, ...]:
        times = {
            Algorithm.PANED: self._paned(),
            Algorithm.WID: self._wid(),
            Algorithm.ADAPTIVE: self._adaptive(),
            Algorithm.TWO_LEVEL: self._two_level(),
            Algorithm.BUFFERING: self._buffering(),
        }
        states = self._states()
        shared = self._shared()
        return tuple(Estimate(each, times[each] + shared, states[each]) for each in Algorithm)

    # --- what is given ---------------------------------------------------------------------------

    @property
    def costs(self) -> Constants:
        classes = [AGGREGATES[class_of(each)] for each in self.aggregates]
        return reduce(add, classes, ROWS)

    @property
    def differential(self) -> bool:
        return all(build(each.call).differential for each in self.aggregates)

    @property
    def holistic(self) -> bool:
        return any(build(each.call).holistic for each in self.aggregates)

    @property
    def entering(self) -> float:
        """Number of tuples that arrive with every window."""
        return max(1.0, self.sizes.tuples * min(1.0, self.window.slide / self.window.range))

    @property
    def batch_span(self) -> float:
        """Number of ticks over which the tuples of a batch are spread."""
        return self.sizes.batch / self.sizes.volume + self.sizes.disorder

    @property
    def open_for(self) -> float:
        """wed: number of ticks that a window is open. Progress comes after every batch."""
        return self.window.range + self.batch_span

    @property
    def buffered(self) -> float:
        """Number of tuples that arrive while a window is open."""
        return self.sizes.tuples * self.open_for / self.window.range

    @property
    def panes(self) -> tuple[float, float]:
        """Number of panes of a window and of a slide that have tuples."""
        pane = gcd(self.window.range, self.window.slide)
        per_window = self.window.range // pane
        per_slide = min(self.window.range, self.window.slide) // pane
        full = min(1.0, self.entering / per_slide)
        return per_window * full, per_slide * full

    # --- times -----------------------------------------------------------------------------------

    def _shared(self) -> float:
        """Time common to all algorithms: reading tuples and releasing results."""
        sizes = self.sizes
        read = ENCODE.time(self.entering) - ENCODE.call
        read += ENCODE.call * self.entering / sizes.batch
        return read + self.costs.finish.time(sizes.tuples, min(sizes.groups, sizes.tuples))

    def _fold(self, at_a_time: float) -> float:
        """Time of a tuple, if so many are folded at a time."""
        groups = self.sizes.groups if at_a_time * _FEW >= self.sizes.groups else 0.0
        return (CUT + self.costs.fold.time(at_a_time, groups)) / at_a_time

    def _per_group(self, time: float) -> float:
        return time / self.sizes.groups

    def _paned(self) -> float:
        sizes, (panes, per_slide) = self.sizes, self.panes
        pane = gcd(self.window.range, self.window.slide)
        touched = self.batch_span / pane + 1  # panes by a batch
        a = self._fold(max(1.0, sizes.batch / touched))
        b = self._per_group(self.costs.new.time(groups=sizes.groups))
        c = self._per_group(self.costs.merge.time(sizes.tuples / panes, sizes.groups))
        formula = window_costs.time_p_d if self.differential else window_costs.time_p_blocks
        skipped = SKIP * self.window.slide / pane
        return formula(sizes.tuples, panes, sizes.groups, a, b, c, per_slide) + skipped

    def _wid(self, on_top: float = 0.0) -> float:
        sizes = self.sizes
        batches = max(1.0, self.open_for * sizes.volume / sizes.batch)  # that a window gets
        at_a_time = max(1.0, sizes.tuples / batches)
        a_prime = self._fold(at_a_time) + on_top / at_a_time
        return window_costs.time_w_nd(sizes.tuples, a_prime) + self.costs.new.time(
            groups=sizes.groups
        )

    def _adaptive(self) -> float:
        """Time of AdaptWID. All groups are assumed alike, so either all are dense or all are
        sparse.
        """
        per_tuple = ADAPTIVE.tuple * self.entering
        if self._eager():
            return per_tuple + self._wid(on_top=ADAPTIVE.call)
        sizes = self.sizes
        lazy = self._fold(sizes.tuples) + ADAPTIVE.call / sizes.tuples + LAZY
        room = self.costs.new.time(groups=min(sizes.groups, sizes.tuples))
        return per_tuple + window_costs.time_w_nd(sizes.tuples, lazy) + room + self._buffer()

    def _two_level(self) -> float:
        step, batches = TWO_LEVEL, self.entering / self.sizes.batch
        return self._paned() + step.tuple * self.entering + step.call * batches

    def _buffering(self) -> float:
        sizes, window = self.sizes, self.window
        slide = min(window.slide, window.range)
        room = self.costs.new.time(groups=sizes.groups)
        if self.differential:
            merge = self.costs.merge.time(self.entering, sizes.groups)
            a_prime = self._fold(self.entering)
            sliding = window_costs.time_w_d(sizes.tuples, a_prime, window.range, slide)
            return sliding + room + merge + self._buffer()
        a_prime = self._fold(sizes.tuples)
        return window_costs.time_w_nd(sizes.tuples, a_prime) + room + self._buffer()

    def _buffer(self) -> float:
        """Time to sort the buffer, whenever windows are released."""
        releases = min(1.0, self.entering / self.sizes.batch)
        return BUFFER * self.buffered * releases

    # --- state -----------------------------------------------------------------------------------

    def _states(self) -> dict[Algorithm, float]:
        sizes, window, found = self.sizes, self.window, self.costs
        panes, _ = self.panes
        kept_panes = panes * self.open_for / window.range
        partials = kept_panes + 1 if self.differential else 2 * kept_panes + 2
        paned = found.partial * sizes.groups * partials + found.kept * self.buffered
        eager, lazy = self._eager_bytes(), self._lazy_bytes()
        return {
            Algorithm.PANED: paned,
            Algorithm.WID: eager,
            Algorithm.ADAPTIVE: lazy if self.holistic else min(eager, lazy),
            Algorithm.TWO_LEVEL: paned + _SLOTS * found.partial,
            Algorithm.BUFFERING: lazy,
        }

    def _eager(self) -> bool:
        return not self.holistic and self._eager_bytes() < self._lazy_bytes()

    def _eager_bytes(self) -> float:
        """Eq. 6.5 for all groups; holistic partial results keep their tuples, once per window."""
        windows = max(self.open_for, self.window.slide)
        group = window_costs.mc_eager(self.costs.partial, windows, self.window.slide)
        tuples = self.sizes.tuples * windows / self.window.slide
        return group * self.sizes.groups + self.costs.kept * tuples

    def _lazy_bytes(self) -> float:
        """Eq. 6.6 for all groups: a tuple with the ids of its windows, and its arguments."""
        tuple_bytes = TAGGED + 8 * len(self.aggregates)
        volume = self.sizes.tuples / self.window.range
        return window_costs.mc_lazy(tuple_bytes, volume, self.open_for)


# The rule that chooses the algorithm of sliding windows.
#
# Before: WindowAggregate [RANGE 600, SLIDE 10], no algorithm. After:  the same node with a Choice:
# PANED, because panes take the least time; or the algorithm of a
#         hint, with the estimates for all of them.

# Estimates that rest on assumptions are no reason to leave an algorithm that is seldom far from the
# best: of those that take about as long as the fastest, the first of these is taken.
_PREFERENCE = (
    Algorithm.PANED,
    Algorithm.WID,
    Algorithm.BUFFERING,
    Algorithm.ADAPTIVE,
    Algorithm.TWO_LEVEL,
)
_ABOUT = 1.25


def choose_algorithm(query: QueryPlan, settings: Settings) -> QueryPlan:
    """Set the choice of every window aggregate over sliding windows."""
    revises = query.late is Late.AMEND or query.early_every is not None

    def change(node: Node) -> Node:
        node = with_inputs(node, change)
        if not isinstance(node, WindowAggregate) or not isinstance(node.window, Sliding):
            return node
        if node.input.signed:  # there is one algorithm for signed items
            return node
        return replace(node, choice=_choice(node, settings, revises))

    return with_inputs(query, change)


def _choice(node: WindowAggregate, settings: Settings, revises: bool) -> Choice:
    sizes = sizes_of(node)
    estimates = predict(node, sizes)
    if node.hint is not None:
        algorithm, reason = node.hint, Reason.HINT
    elif revises:
        algorithm, reason = Algorithm.PANED, Reason.REVISIONS
    elif isinstance(node.window, Sliding) and per_tuple(node.window) > MOST_KEPT:
        algorithm, reason = Algorithm.PANED, Reason.TIME  # the others keep every window for itself
    else:
        algorithm, reason = cheapest(estimates, settings.state_budget)
    by_time = sorted(estimates, key=lambda each: (each.time, _PREFERENCE.index(each.algorithm)))
    return Choice(
        algorithm, reason, tuple(by_time), settings.state_budget, sizes.known, sizes.assumed
    )


def cheapest(estimates: tuple[Estimate, ...], budget: float) -> tuple[Algorithm, Reason]:
    """The least time among those whose state is within the budget. If none is, the least state; of
    equals ADAPTIVE, because groups that differ more than assumed only make its state smaller.

    >>> fast, small = Estimate(Algorithm.WID, 1, 900), Estimate(Algorithm.BUFFERING, 5, 20)
    >>> [cheapest((fast, small), budget)[0].name for budget in (1000, 100, 10)]
    ['WID', 'BUFFERING', 'BUFFERING']
    """
    within = [each for each in estimates if each.state <= budget]
    if not within:
        least = min(each.state for each in estimates)
        smallest = [each.algorithm for each in estimates if each.state == least]
        if Algorithm.ADAPTIVE in smallest:
            return Algorithm.ADAPTIVE, Reason.STATE
        return min(smallest, key=_PREFERENCE.index), Reason.STATE
    fastest = _fastest(within)
    if fastest is _fastest(list(estimates)):
        return fastest, Reason.TIME
    return fastest, Reason.BUDGET


def _fastest(estimates: list[Estimate]) -> Algorithm:
    limit = _ABOUT * min(each.time for each in estimates)
    near = [each.algorithm for each in estimates if each.time <= limit]
    return min(near, key=_PREFERENCE.index)
