"""How far the inputs of a join have come: which tuples may still find partners, and what can be
promised about results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.room import ticks_of
from penstock.model.schema import Field
from penstock.operators.operator import Progress
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join
from penstock.state.chunks import Tree
from penstock.windows.joins import JoinWindow


@dataclass(frozen=True, slots=True)
class _Timed:
    """A column of the left input and one of the right whose times have to fit."""

    names: tuple[str, str]
    window: JoinWindow

    def limit(self, port: int, bound: Bound) -> Bound:
        """The lowest time at a port that fits a time at or above the bound at the other one."""
        if bound in (BEGINNING, END):
            return bound
        if port == 0:
            return self.window.partner_bounds_of_right(int(bound))[0]
        return self.window.partner_bounds(int(bound))[0]


class JoinProgress:
    """Bounds on the columns of both inputs that have to fit in time, by name.  A later result has a
    later tuple of one input.  So each of its times is at the bound on that column, or as far from
    the bound on one of the other input as their window lets it be."""

    def __init__(self, node: Join) -> None:
        window = node.window.between(0, 1)
        assert window is not None
        self._times = [[_name(each) for each in times] for times in node.times]
        self._pairs = [_Timed((_name(node.attributes[0]), _name(node.attributes[1])), window)]
        for each in node.also:
            self._pairs.append(_Timed((_name(each.left), _name(each.right)), each.window))
        self.bounds: list[dict[str, Bound]] = [
            dict.fromkeys((pair.names[port] for pair in self._pairs), BEGINNING)
            for port in range(2)
        ]
        types = {each.field.qualified: each.field.type for each in node.progress}
        self._promising = [
            (port, name, ticks_of(types[name]), [p for p in self._pairs if p.names[port] == name])
            for port, names in enumerate(self.bounds)
            for name in names
            if name in types
        ]
        self._jointly_promising = [p for p in self._pairs if types.keys() >= set(p.names)]

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
        return self.bounds[port][self._pairs[0].names[port]]

    def limit(self, port: int) -> Bound:
        """Below it, tuples of a port have no partners to come."""
        return self._pairs[0].limit(port, self.bound(1 - port))

    def other_limits(self, port: int) -> list[tuple[str, Bound]]:
        """Other columns of a port than the attribute, and below what its tuples have no partners to
        come because of them."""
        others = self.bounds[1 - port]
        pairs = self._pairs[1:]
        limits = [(p.names[port], p.limit(port, others[p.names[1 - port]])) for p in pairs]
        return [(name, limit) for name, limit in limits if limit != BEGINNING]

    def save(self) -> Tree:
        """By place: columns may be called something else later."""
        return [list(each.values()) for each in self.bounds]

    def load(self, saved: Tree) -> None:
        for own, bounds in zip(self.bounds, saved, strict=True):
            own.update(zip(own, bounds, strict=True))

    @property
    def ended(self) -> bool:
        return all(self.bound(port) == END for port in range(2))

    def promise(self) -> Progress:
        if self.ended:
            return Progress(ended=True)
        bounds: dict[str, Bound] = {}
        for port, name, room, pairs in self._promising:
            others = self.bounds[1 - port]
            limit = max(pair.limit(port, others[pair.names[1 - port]]) for pair in pairs)
            promised = min(self.bounds[port][name], limit)
            if promised >= room.low:
                bounds[name] = min(promised, room.high)
        joint = [self._jointly(pair) for pair in self._jointly_promising]
        return Progress(bounds, joint=tuple(each for each in joint if each is not None))

    def _jointly(self, pair: _Timed) -> JointPunctuation | None:
        """No later result is below both bounds.  If these are too far apart to fit, the bounds on
        single columns say as much."""
        left, right = self.bounds[0][pair.names[0]], self.bounds[1][pair.names[1]]
        if BEGINNING in (left, right) or END in (left, right):
            return None
        fits = pair.window.matches(int(left), int(right))
        return JointPunctuation(pair.names, (left, right)) if fits else None


def _name(column: Column) -> str:
    return Field(column.name, column.type, column.relation).qualified
