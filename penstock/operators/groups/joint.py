"""Joint bounds, where two keys of a group progress: no later tuple is below both (section 7.2).

A group that is below both is complete, though later tuples may be below either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.bounds import BoundOf
from penstock.operators.operator import Progress
from penstock.plan.expressions import Expression
from penstock.state.chunks import Tree


class JointBounds:
    """What has been promised about pairs of progressing expressions, each of one column."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._of = [BoundOf(each) for each in expressions]
        self._pairs = {
            (one.columns[0], other.columns[0]): (i, j)
            for (i, one), (j, other) in permutations(enumerate(self._of), 2)
            if len(one.columns) == len(other.columns) == 1
        }
        self._bounds: dict[tuple[int, int], tuple[Bound, Bound]] = {}

    def take_in(self, progress: Progress) -> None:
        """Bounds do not move back, so what came last says most."""
        for each in progress.joint:
            places = self._pairs.get(each.attributes)
            if places is not None:
                alone = Progress(dict(zip(each.attributes, each.bounds, strict=True)))
                first, second = (self._of[place].promised(alone) for place in places)
                if BEGINNING not in (first, second):
                    self._bounds[places] = first, second

    def passed(self, ticks: Ints) -> Mask | None:
        """Which groups are complete, of which each expression has a row of ticks; None if none is
        known to be."""
        found: Mask | None = None
        for (i, j), (first, second) in self._bounds.items():
            below = (ticks[i] < first) & (ticks[j] < second)
            found = below if found is None else found | below
        return found

    def save(self) -> Tree:
        return [[*places, *bounds] for places, bounds in self._bounds.items()]

    def load(self, saved: Tree) -> None:
        self._bounds = {(i, j): (first, second) for i, j, first, second in saved}
