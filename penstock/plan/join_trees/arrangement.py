"""A join made anew as a tree of joins, each an operator with two inputs or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product

from penstock.model.types import BOOLEAN
from penstock.plan.expressions import Call, Column, Expression, all_of, columns_of
from penstock.plan.join_trees.join_tree import Joined, JoinInput, JoinTree, flat
from penstock.plan.nodes.joins import Bands, Join, JoinWindow, Ranges, TimeCondition
from penstock.plan.nodes.node import Node
from penstock.plan.properties.equalities import Conditions, conditions_of
from penstock.plan.properties.pairwise_windows import (
    between,
    conditions_across,
    width,
    window_of_two,
)
from penstock.windows.joins import BandJoin


def arranged(join: Join, tree: Joined) -> Join:
    """The same answer by a tree of operators.  Columns stand in the order of its leaves.

    >>> import penstock as ps
    >>> from penstock.plan.join_trees.join_tree import left_deep
    >>> db = ps.connect()
    >>> for name in "abc":
    ...     db.stream(name, [{"j": 1, "k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 9], b [RANGE 5], c [RANGE 7]"
    >>> query = db.sql(f"SELECT a.j FROM {windows} WHERE a.k = b.k AND b.k = c.k")
    >>> top = arranged(query.plan.input.input, left_deep((0, 2, 1)))
    >>> for each in (top, top.branches[0]):
    ...     print(each.condition, *each.details()[1:], sep="; ")
    (a.k = b.k); window: [RANGE 7, WA c.t]; window: [RANGE 5, WA b.t]; also: -5 <= b.t - a.t <= 9
    (a.k = c.k); window: [RANGE 9, WA a.t]; window: [RANGE 7, WA c.t]
    """
    return _Arranging(join, conditions_of(join)).made(tree, whole=True)


@dataclass(frozen=True, slots=True)
class _Arranging:
    join: Join
    conditions: Conditions

    def node(self, tree: JoinTree) -> Node:
        if isinstance(tree, JoinInput):
            return self.join.branches[tree.number]
        return self.made(tree, whole=False)

    def made(self, tree: Joined, whole: bool) -> Join:
        join, parts = self.join, tree.parts
        timed, window = self._times(parts)
        also = tuple(
            TimeCondition(join.attributes[one], join.attributes[other], between(join, one, other))
            for left, right in combinations(range(len(parts)), 2)
            for one, other in product(parts[left].leaves, parts[right].leaves)
            if (one, other) != (timed[left], timed[right])
        )
        for left, right in combinations(parts, 2):
            also += tuple(conditions_across(join, left.leaves, right.leaves))
        return Join(
            tuple(map(self.node, parts)),
            tuple(join.attributes[number] for number in timed),
            window,
            all_of(self._condition(tree, whole)),
            join.span,
            also=also,
            late_by=self._late_by(parts, timed),
            hint=join.hint,
            tree=flat(len(parts), tree.probes) if len(parts) > 2 else None,
        )

    def _late_by(
        self, parts: Sequence[JoinTree], timed: Sequence[int]
    ) -> tuple[tuple[Column, ...], ...]:
        """Tuples of the inputs of the query are late where they come in; results never are."""
        join = self.join
        if not join.late_by:
            return ()
        return tuple(
            join.late_by[part.number] if isinstance(part, JoinInput) else (join.attributes[first],)
            for part, first in zip(parts, timed, strict=True)
        )

    def _times(self, parts: Sequence[JoinTree]) -> tuple[tuple[int, ...], JoinWindow]:
        """The input of each part by whose times it is looked up, and the window of all of them."""
        join = self.join
        if len(parts) == 2:
            pairs = product(parts[0].leaves, parts[1].leaves)
            pair = min(pairs, key=lambda each: width(between(join, *each)))
            return pair, window_of_two(between(join, *pair))
        everybody = range(len(join.branches))
        timed = tuple(
            min(
                part.leaves,
                key=lambda own: sum(width(between(join, own, n)) for n in everybody if n != own),
            )
            for part in parts
        )
        if isinstance(join.window, Ranges):
            return timed, Ranges(tuple(join.window.ticks[number] for number in timed))
        if isinstance(join.window, Bands):
            return timed, Bands(tuple(self._bands(timed)))
        return timed, join.window

    def _bands(self, timed: tuple[int, ...]) -> list[tuple[int, int, BandJoin]]:
        bands = []
        for i, j in combinations(range(len(timed)), 2):
            band = between(self.join, timed[i], timed[j])
            assert isinstance(band, BandJoin)
            bands.append((i, j, band))
        return bands

    def _condition(self, tree: Joined, whole: bool) -> list[Expression]:
        """What can be looked at here and in no part: equalities of parts, one after the other, and
        what else has all of its columns.  What may fail comes last, in the whole join."""
        found: list[Expression] = []
        for each in self.conditions.equalities:
            with_it = [set(part.leaves) & each.inputs for part in tree.parts]
            sides = [each.of(min(inputs)) for inputs in with_it if inputs]
            found += [Call("eq", pair, BOOLEAN) for pair in pairwise(sides)]
        below = [set(part.leaves) for part in tree.parts if isinstance(part, Joined)]
        for condition in self.conditions.others:
            inputs = self._inputs(condition)
            here = inputs <= set(tree.leaves) and not any(inputs <= part for part in below)
            if here if inputs else whole:
                found.append(condition)
        return [*found, *(self.conditions.risky if whole else ())]

    def _inputs(self, condition: Expression) -> set[int]:
        keys = {(each.name, each.relation) for each in columns_of(condition)}
        return {
            number
            for number, branch in enumerate(self.join.branches)
            if keys & {(field.name, field.relation) for field in branch.schema}
        }
