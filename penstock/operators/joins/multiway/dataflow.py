"""The dataflow expressions of a join as operators: for every input, the probes that its tuples go
through, over indexes that all of them share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.model.types import BOOLEAN, Type
from penstock.operators.joins.multiway.combinations import Combinations
from penstock.operators.joins.multiway.probe import (
    CombinationTest,
    InputExpression,
    Probe,
    TimeLink,
)
from penstock.operators.joins.multiway.window_index import Codings, WindowIndex
from penstock.operators.joins.partners.arrivals import Partners
from penstock.operators.joins.shared_codes import HashedCodes, SharedCodes
from penstock.plan.expressions import Call, Column, Expression, columns_of
from penstock.plan.nodes.joins import Join
from penstock.plan.properties.equalities import Equality, conditions_of


class Dataflow:
    """`indexes` are those of each input."""

    def __init__(self, join: Join) -> None:
        self._join = join
        self._conditions = conditions_of(join)
        self._codes: dict[tuple[int, ...], Codings] = {}
        self._by_keys: list[dict[tuple[int, ...], WindowIndex]] = [{} for _ in join.branches]
        self._names = [
            {(field.name, field.relation) for field in branch.schema} for branch in join.branches
        ]
        self._expressions = [
            self._expression(origin, order) for origin, order in enumerate(join.probes)
        ]
        self._last = CombinationTest(join, self._conditions.risky)
        self.indexes = [list(each.values()) for each in self._by_keys]

    def run(self, origin: int, given: Combinations) -> Iterator[Combinations]:
        """What comes of tuples of an input, as many at a time as memory has room for."""
        for each in _through(given, self._expressions[origin]):
            found = self._last.among(each)
            if len(found):
                yield found

    def settle(self) -> None:
        """Let everything be in its place, so that nothing changes while it is looked at."""
        for index in (each for own in self.indexes for each in own):
            index.side.settle()

    def forget_keys(self) -> None:
        """Give up the numbers of keys that no tuple has."""
        for keys, codes in self._codes.items():
            codes.forget([own[keys].side for own in self._by_keys if keys in own])

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, origin: int, order: Sequence[int]) -> list[Probe]:
        bound, probes = [origin], []
        for new in order:
            probes.append(self._probe(bound, new, last=new == order[-1]))
            bound.append(new)
        return probes

    def _probe(self, bound: list[int], new: int, last: bool) -> Probe:
        join = self._join
        numbers = [
            number
            for number, each in enumerate(self._conditions.equalities)
            if new in each.inputs and each.inputs & set(bound)
        ]
        equalities = [self._conditions.equalities[number] for number in numbers]
        keys = [self._computed(each, bound) for each in equalities]
        links = [
            TimeLink(
                InputExpression(join, each, join.attributes[each]),
                join.attributes[each],
                _partners(join, each, new),
            )
            for each in bound
        ]
        now: list[Expression] = [
            each
            for each in self._conditions.others
            if self._ready(columns_of(each), bound, new, last)
        ]
        times = [
            each for each in join.also if self._ready([each.left, each.right], bound, new, last)
        ]
        if HashedCodes.suit([each.of(new).type for each in equalities]):
            now += [_compared(each, bound, new) for each in equalities]
        test = CombinationTest(join, now, times)
        return Probe(new, self._index(new, tuple(numbers)), keys, links, test)

    def _computed(self, equality: Equality, bound: list[int]) -> InputExpression:
        number = _first(equality, bound)
        return InputExpression(self._join, number, equality.of(number))

    def _ready(self, columns: Sequence[Column], bound: list[int], new: int, last: bool) -> bool:
        """Whether a condition can be looked at now, and could not be before."""
        inputs = self._inputs(columns)
        if not inputs:
            return last
        fresh = new in inputs or inputs == {bound[0]} == set(bound)
        return fresh and inputs <= {*bound, new}

    def _inputs(self, columns: Sequence[Column]) -> set[int]:
        keys = [(each.name, each.relation) for each in columns]
        return {n for key in keys for n, names in enumerate(self._names) if key in names}

    def _index(self, new: int, numbers: tuple[int, ...]) -> WindowIndex:
        """The one by these equalities: made for the first who asks for it."""
        known = self._by_keys[new]
        if numbers not in known:
            keys = [self._conditions.equalities[number].of(new) for number in numbers]
            codes = self._codes.setdefault(numbers, _coding([key.type for key in keys]))
            known[numbers] = WindowIndex(self._join.branches[new].schema, keys, codes)
        return known[numbers]


def _coding(types: Sequence[Type]) -> Codings:
    return HashedCodes(types) if HashedCodes.suit(types) else SharedCodes(types)


def _first(equality: Equality, bound: Sequence[int]) -> int:
    return next(each for each in bound if each in equality.inputs)


def _compared(equality: Equality, bound: Sequence[int], new: int) -> Expression:
    sides = (equality.of(_first(equality, bound)), equality.of(new))
    return Call("eq", sides, BOOLEAN)


def _through(given: Combinations, probes: Sequence[Probe]) -> Iterator[Combinations]:
    if not probes:
        yield given
        return
    for found in probes[0].extend(given):
        yield from _through(found, probes[1:])


def _partners(join: Join, given: int, new: int) -> Partners:
    window = join.window.between(min(given, new), max(given, new))
    assert window is not None
    return window.partner_columns if given < new else window.partner_columns_of_right
