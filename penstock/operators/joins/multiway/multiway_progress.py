"""How far the inputs of a join of several have come: which tuples may still be in a result, and
what can be promised about results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.room import ticks_of
from penstock.model.schema import Field
from penstock.operators.operator import Progress
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.equalities import input_of
from penstock.state.chunks import Tree
from penstock.windows.joins import JoinWindow


@dataclass(frozen=True, slots=True)
class TimedPair:
    """Columns of two inputs, by the numbers of these, whose times have to fit."""

    inputs: tuple[int, int]
    names: tuple[str, str]
    window: JoinWindow

    def limit(self, side: int, bound: Bound) -> Bound:
        """The lowest time of one side that fits a time at or above the bound of the other."""
        if bound in (BEGINNING, END):
            return bound
        if side == 0:
            return self.window.partner_bounds_of_right(int(bound))[0]
        return self.window.partner_bounds(int(bound))[0]


class MultiwayProgress:
    """A later result has a later tuple of one input.  So each of its times is at the bound on that
    column, or as far from the bound on one of another input as their window lets it be."""

    def __init__(self, join: Join) -> None:
        self._own = [_name(attribute) for attribute in join.attributes]
        self._times = [[_name(each) for each in times] for times in join.times]
        self._timed = list(_times(join))
        self._attributes = self._timed[: len(self._timed) - len(join.also)]
        self.bounds: list[dict[str, Bound]] = [{name: BEGINNING} for name in self._own]
        for each in self._timed:
            for number, name in zip(each.inputs, each.names, strict=True):
                self.bounds[number].setdefault(name, BEGINNING)
        self._types = {each.field.qualified: each.field.type for each in join.progress}

    def advance(self, port: int, progress: Progress, final: Sequence[Bound]) -> bool:
        """Whether there is news.  `final` are the bounds on the times by which tuples of the port
        are late, the attribute first; others are in the progress."""
        bounds, news = self.bounds[port], False
        own = dict(zip(self._times[port], final, strict=True))
        for name, before in bounds.items():
            bound = own.get(name, END if progress.ended else progress.bounds.get(name, BEGINNING))
            if bound > before:
                bounds[name], news = bound, True
        return news

    def bound(self, port: int) -> Bound:
        """On the attribute of a port."""
        return self.bounds[port][self._own[port]]

    def limit(self, port: int) -> Bound:
        """Below it, tuples of a port are in no result to come: of no other input one can come that
        fits."""
        lowest: Bound = END
        for each in self._attributes:
            if port in each.inputs:
                side = each.inputs.index(port)
                lowest = min(lowest, each.limit(side, self.bound(each.inputs[1 - side])))
        return lowest

    @property
    def ended(self) -> bool:
        return all(self.bound(port) == END for port in range(len(self._own)))

    def promise(self) -> Progress:
        if self.ended:
            return Progress(ended=True)
        bounds: dict[str, Bound] = {}
        for port, names in enumerate(self.bounds):
            for name in names:
                if name in self._types:
                    promised, room = self._lowest(port, name), ticks_of(self._types[name])
                    if promised >= room.low:
                        bounds[name] = min(promised, room.high)
        return Progress(bounds, joint=tuple(self._jointly()))

    def _lowest(self, port: int, name: str, without: int | None = None) -> Bound:
        """The lowest time of a column in a later result that has a later tuple of any input, but
        for one."""
        lowest = self.bounds[port][name]
        for other in range(len(self._own)):
            if other not in (port, without):
                lowest = min(lowest, self._given(port, name, other))
        return lowest

    def _given(self, port: int, name: str, other: int) -> Bound:
        """The same if that tuple is of another input: the highest of all that is known."""
        found: Bound = BEGINNING
        for each in self._timed:
            for side in (0, 1):
                own = each.inputs[side] == port and each.names[side] == name
                if own and each.inputs[1 - side] == other:
                    bound = self.bounds[other][each.names[1 - side]]
                    found = max(found, each.limit(side, bound))
        return found

    def _jointly(self) -> Iterator[JointPunctuation]:
        """No later result is below both bounds: one with a later tuple of the second input is not
        below the second, any other not below the first.  If they are too far apart to fit, the
        bounds on single columns say as much."""
        for each in self._timed:
            if not self._types.keys() >= set(each.names):
                continue
            for first in (0, 1):
                one, other = each.inputs[first], each.inputs[1 - first]
                names = each.names[first], each.names[1 - first]
                low = self._lowest(one, names[0], without=other)
                high = self.bounds[other][names[1]]
                if {BEGINNING, END} & {low, high}:
                    continue
                ticks = int(low), int(high)
                if each.window.matches(*(ticks if first == 0 else ticks[::-1])):
                    yield JointPunctuation(names, (low, high))

    def given(
        self, high: Mapping[str, Bound], columns: Sequence[list[str]]
    ) -> tuple[Progress, ...]:
        """What each input has promised, for another operator to go on from; `columns` are the names
        of those of each input, and `high` is how far they have come."""
        return tuple(
            Progress(
                {} if ended else {name: b for name, b in bounds.items() if b != BEGINNING},
                {name: bound for name, bound in high.items() if name in own},
                ended=ended,
            )
            for port, (bounds, own) in enumerate(zip(self.bounds, columns, strict=True))
            for ended in [self.bound(port) == END]
        )

    # --- state -----------------------------------------------------------------------------------

    def save(self) -> Tree:
        """By place: columns may be called something else later."""
        return [list(each.values()) for each in self.bounds]

    def load(self, saved: Tree) -> None:
        for own, bounds in zip(self.bounds, saved, strict=True):
            own.update(zip(own, bounds, strict=True))


def _times(join: Join) -> Iterator[TimedPair]:
    """Of all pairs of attributes, and then of further columns."""
    for left, right in combinations(range(len(join.branches)), 2):
        window = join.window.between(left, right)
        assert window is not None, "all inputs are bounded by each other"
        names = _name(join.attributes[left]), _name(join.attributes[right])
        yield TimedPair((left, right), names, window)
    schemas = [branch.schema for branch in join.branches]
    for each in join.also:
        one, other = (input_of(column, schemas) for column in (each.left, each.right))
        assert one is not None
        assert other is not None
        yield TimedPair((one, other), (_name(each.left), _name(each.right)), each.window)


def _name(column: Column) -> str:
    return Field(column.name, column.type, column.relation).qualified
