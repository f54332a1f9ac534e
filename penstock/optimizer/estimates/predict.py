"""What every algorithm would take for an aggregation: equations 6.1 to 6.6 with measured constants.

The constants of the equations are costs of a tuple or of a group.  Here a step also costs something
however little it does, so its share of that is added: a of the equations is the cost of a fold,
over the tuples that it takes in at a time; b and c are those of a new and of a merged partial
result, over its groups.  Reading tuples and releasing results is the same for all, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd
from operator import add

from penstock.model.types import Kind
from penstock.operators.aggregates.build import build
from penstock.operators.windows import costs
from penstock.optimizer.estimates import constants
from penstock.optimizer.estimates.constants import Class, Constants
from penstock.optimizer.estimates.sizes import Sizes
from penstock.plan.algorithms import Algorithm, Estimate
from penstock.plan.nodes.aggregates import NamedAggregate, WindowAggregate
from penstock.windows.sliding import Sliding

_FEW = 8  # as in operators/scatter.py: below that many tuples to 8 groups, only theirs are touched
_SLOTS = 4096  # of the low level of two-level aggregation


def predict(node: WindowAggregate, sizes: Sizes) -> tuple[Estimate, ...]:
    """An estimate for every algorithm, in the order of `Algorithm`."""
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
        classes = [constants.AGGREGATES[class_of(each)] for each in self.aggregates]
        return reduce(add, classes, constants.ROWS)

    @property
    def differential(self) -> bool:
        return all(build(each.call).differential for each in self.aggregates)

    @property
    def holistic(self) -> bool:
        return any(build(each.call).holistic for each in self.aggregates)

    @property
    def entering(self) -> float:
        """The tuples that come with every window."""
        return max(1.0, self.sizes.tuples * min(1.0, self.window.slide / self.window.range))

    @property
    def batch_span(self) -> float:
        """The ticks that the tuples of a batch are spread over."""
        return self.sizes.batch / self.sizes.volume + self.sizes.disorder

    @property
    def open_for(self) -> float:
        """wed: how long a window is open.  Progress comes after every batch."""
        return self.window.range + self.batch_span

    @property
    def buffered(self) -> float:
        """The tuples that came while a window was open."""
        return self.sizes.tuples * self.open_for / self.window.range

    @property
    def panes(self) -> tuple[float, float]:
        """Of a window and of a slide, those that have tuples."""
        pane = gcd(self.window.range, self.window.slide)
        per_window = self.window.range // pane
        per_slide = min(self.window.range, self.window.slide) // pane
        full = min(1.0, self.entering / per_slide)
        return per_window * full, per_slide * full

    # --- times -----------------------------------------------------------------------------------

    def _shared(self) -> float:
        """Tuples in, results out."""
        sizes = self.sizes
        read = constants.ENCODE.time(self.entering) - constants.ENCODE.call
        read += constants.ENCODE.call * self.entering / sizes.batch
        return read + self.costs.finish.time(sizes.tuples, min(sizes.groups, sizes.tuples))

    def _fold(self, at_a_time: float) -> float:
        """A tuple, if so many are folded at a time."""
        groups = self.sizes.groups if at_a_time * _FEW >= self.sizes.groups else 0.0
        return (constants.CUT + self.costs.fold.time(at_a_time, groups)) / at_a_time

    def _per_group(self, time: float) -> float:
        return time / self.sizes.groups

    def _paned(self) -> float:
        sizes, (panes, per_slide) = self.sizes, self.panes
        pane = gcd(self.window.range, self.window.slide)
        touched = self.batch_span / pane + 1  # panes by a batch
        a = self._fold(max(1.0, sizes.batch / touched))
        b = self._per_group(self.costs.new.time(groups=sizes.groups))
        c = self._per_group(self.costs.merge.time(sizes.tuples / panes, sizes.groups))
        formula = costs.time_p_d if self.differential else costs.time_p_blocks
        skipped = constants.SKIP * self.window.slide / pane
        return formula(sizes.tuples, panes, sizes.groups, a, b, c, per_slide) + skipped

    def _wid(self, on_top: float = 0.0) -> float:
        sizes = self.sizes
        batches = max(1.0, self.open_for * sizes.volume / sizes.batch)  # that a window gets
        at_a_time = max(1.0, sizes.tuples / batches)
        a_prime = self._fold(at_a_time) + on_top / at_a_time
        return costs.time_w_nd(sizes.tuples, a_prime) + self.costs.new.time(groups=sizes.groups)

    def _adaptive(self) -> float:
        """All groups are taken to be alike, so either all are dense or all are sparse."""
        per_tuple = constants.ADAPTIVE.tuple * self.entering
        if self._eager():
            return per_tuple + self._wid(on_top=constants.ADAPTIVE.call)
        sizes = self.sizes
        lazy = self._fold(sizes.tuples) + constants.ADAPTIVE.call / sizes.tuples + constants.LAZY
        room = self.costs.new.time(groups=min(sizes.groups, sizes.tuples))
        return per_tuple + costs.time_w_nd(sizes.tuples, lazy) + room + self._buffer()

    def _two_level(self) -> float:
        step, batches = constants.TWO_LEVEL, self.entering / self.sizes.batch
        return self._paned() + step.tuple * self.entering + step.call * batches

    def _buffering(self) -> float:
        sizes, window = self.sizes, self.window
        slide = min(window.slide, window.range)
        room = self.costs.new.time(groups=sizes.groups)
        if self.differential:
            merge = self.costs.merge.time(self.entering, sizes.groups)
            a_prime = self._fold(self.entering)
            sliding = costs.time_w_d(sizes.tuples, a_prime, window.range, slide)
            return sliding + room + merge + self._buffer()
        a_prime = self._fold(sizes.tuples)
        return costs.time_w_nd(sizes.tuples, a_prime) + room + self._buffer()

    def _buffer(self) -> float:
        """Whenever windows are released, the buffer is put in order."""
        releases = min(1.0, self.entering / self.sizes.batch)
        return constants.BUFFER * self.buffered * releases

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
        group = costs.mc_eager(self.costs.partial, windows, self.window.slide)
        tuples = self.sizes.tuples * windows / self.window.slide
        return group * self.sizes.groups + self.costs.kept * tuples

    def _lazy_bytes(self) -> float:
        """Eq. 6.6 for all groups: a tuple with the ids of its windows, and its arguments."""
        tuple_bytes = constants.TAGGED + 8 * len(self.aggregates)
        volume = self.sizes.tuples / self.window.range
        return costs.mc_lazy(tuple_bytes, volume, self.open_for)
