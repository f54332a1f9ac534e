"""Properties of joins: equalities and time conditions between any of their inputs, the order of
their results, and joins rewritten as trees of joins.

Equalities and bands are transitive: from a.k = b.k and b.k = c.k follows a.k = c.k, so tuples of a
and c can be joined by it before those of b.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, pairwise, product
from typing import NamedTuple, TypeAlias

from penstock.model.types import BOOLEAN, Schema
from penstock.plan.expressions import (
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    all_of,
    columns_of,
    is_steady,
    rises_with,
    rising_operands,
    written,
)
from penstock.plan.join_trees import Joined, JoinInput, JoinTree, flat
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes.join import (
    Bands,
    Join,
    JoinWindow,
    Ranges,
    TimeCondition,
    Tumbling,
    by_risk,
    sides_of_equality,
)
from penstock.plan.nodes.node import Filter, Node, Project, Union
from penstock.plan.properties import below

# Equality classes: expressions of the inputs that have to be equal, directly or through others.


@dataclass(frozen=True, slots=True)
class Equality:
    """Expressions of several inputs that have to be equal, one of each, by the number of the
    input.
    """

    sides: tuple[tuple[int, Expression], ...]

    @property
    def inputs(self) -> frozenset[int]:
        return frozenset(each for each, _ in self.sides)

    def of(self, number: int) -> Expression:
        return next(expression for each, expression in self.sides if each == number)

    def __str__(self) -> str:
        return " = ".join(str(expression) for _, expression in self.sides)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A join condition taken apart: equalities, other conditions, and those that may fail, which
    are tested last.
    """

    equalities: tuple[Equality, ...]
    others: tuple[Expression, ...]
    risky: tuple[Expression, ...]


def conditions_of(join: Join) -> Conditions:
    """Take the condition of a join apart. An equality has at most one expression of an input; a
    condition that would add a second one is one of the others.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> for name in "abc":
    ...     db.stream(name, [{"j": 1, "k": 2, "t": 3}], progress=ps.progress("t", delay=5))
    >>> windows = "a [RANGE 9], b [RANGE 5], c [RANGE 7]"
    >>> where = "a.k = b.k AND c.j = b.k AND a.k = c.k AND a.j < c.j AND a.j + 1 > b.j"
    >>> query = db.sql(f"SELECT a.j FROM {windows} WHERE {where}")
    >>> found = conditions_of(query.plan.input.input)
    >>> [str(each) for each in found.equalities]
    ['a.k = b.k = c.j']
    >>> [str(each) for each in found.others], [str(each) for each in found.risky]
    (['(a.k = c.k)', '(a.j < c.j)'], ['((a.j + 1) > b.j)'])
    """
    safe, risky = by_risk(join.condition)
    schemas = [branch.schema for branch in join.branches]
    classes: list[dict[int, Expression]] = []
    others = []
    for each in safe:
        sides = _two_inputs(each, schemas)
        if sides is None or not _merged(classes, *sides):
            others.append(each)
    made = [Equality(tuple(sorted(each.items()))) for each in classes]  # by number, which differ
    return Conditions(tuple(made), tuple(others), tuple(risky))


def common_keys(join: Join, port: int) -> tuple[Expression, ...]:
    """Keys that tuples of all inputs have to agree on, as expressions of one of them."""
    everywhere = frozenset(range(len(join.branches)))
    found = conditions_of(join).equalities
    return tuple(each.of(port) for each in found if each.inputs == everywhere)


def input_of(expression: Expression, schemas: Sequence[Schema]) -> int | None:
    """The only input whose columns an expression has; None if there are none or several."""
    known = [{(field.name, field.relation) for field in schema} for schema in schemas]
    found = {
        next(n for n, names in enumerate(known) if (column.name, column.relation) in names)
        for column in columns_of(expression)
    }
    return found.pop() if len(found) == 1 else None


def _two_inputs(
    condition: Expression, schemas: Sequence[Schema]
) -> tuple[tuple[int, Expression], tuple[int, Expression]] | None:
    """Sides of an equality between two inputs, with the numbers of these; None if it is none."""
    pair = sides_of_equality(condition)
    if pair is None:
        return None
    one, other = (input_of(side, schemas) for side in pair)
    if one is None or other is None or one == other:
        return None
    return (one, pair[0]), (other, pair[1])


def _merged(
    classes: list[dict[int, Expression]], one: tuple[int, Expression], other: tuple[int, Expression]
) -> bool:
    """Put two sides into one class, unless it would have two expressions of an input; return
    whether it was possible.
    """
    own = [each for each in classes if one in each.items() or other in each.items()]
    parts = [dict([one]), dict([other]), *own]
    made: dict[int, Expression] = {}
    for part in parts:
        if any(made.get(number, given) != given for number, given in part.items()):
            return False
        made |= part
    for each in own:
        classes.remove(each)
    classes.append(made)
    return True


# The time condition between any two inputs of a join, given or implied by others.

PairWindow: TypeAlias = SlidingJoin | TumblingJoin | BandJoin


def between(join: Join, left: int, right: int) -> PairWindow:
    """Window between the times of two inputs, from the first to the second."""
    if isinstance(join.window, Bands):
        return band_between(join.window, left, right)
    found = join.window.between(left, right)
    assert found is not None
    return found


def conditions_across(
    join: Join, some: Sequence[int], others: Sequence[int]
) -> Iterator[TimeCondition]:
    """Further time conditions between some inputs and others, from the former to the latter."""
    owners = {
        (field.name, field.relation): number
        for number, branch in enumerate(join.branches)
        for field in branch.schema
    }
    for each in join.also:
        left, right = (owners[column.name, column.relation] for column in (each.left, each.right))
        if left in some and right in others:
            yield each
        elif right in some and left in others:
            yield TimeCondition(each.right, each.left, _turned(each.window))


def _turned(window: PairWindow) -> PairWindow:
    match window:
        case TumblingJoin():
            return window
        case SlidingJoin(left, right):
            return SlidingJoin(right, left)
        case BandJoin():
            return _reverse(window)


def band_between(bands: Bands, left: int, right: int) -> BandJoin:
    """The band of two inputs: their own, or else the one that the narrowest bands imply through
    others.
    """
    own = [band for i, j, band in bands.bands if (i, j) == (left, right)]
    own += [_reverse(band) for i, j, band in bands.bands if (j, i) == (left, right)]
    if own:
        return own[0]
    found = bands_from(bands, left)
    assert right in found, "nothing bounds how far apart two inputs of a join are"
    return found[right]


def bands_from(bands: Bands, left: int) -> dict[int, BandJoin]:
    """Bands from one time to all others that follow from the narrowest bands (a shortest-path
    search).
    """
    edges: dict[int, list[tuple[int, BandJoin]]] = {}
    for i, j, band in bands.bands:
        edges.setdefault(i, []).append((j, band))
        edges.setdefault(j, []).append((i, _reverse(band)))
    found: dict[int, BandJoin] = {}
    waiting = [(0, left, 0, 0)]
    while waiting:
        wide, here, low, high = heappop(waiting)
        if here not in found:
            found[here] = BandJoin(low, high)
            for other, band in edges.get(here, ()):
                step = (wide + width(band), other, low + band.low, high + band.high)
                heappush(waiting, step)
    return found


def _reverse(band: BandJoin) -> BandJoin:
    return BandJoin(-band.high, -band.low)


def width(window: PairWindow) -> int:
    match window:
        case TumblingJoin():
            return window.range
        case SlidingJoin():
            return window.left_range + window.right_range
        case BandJoin():
            return window.high - window.low


def window_of_two(window: PairWindow) -> JoinWindow:
    """As the window of a join with two inputs."""
    match window:
        case TumblingJoin():
            return Tumbling(window)
        case SlidingJoin():
            return Ranges((window.left_range, window.right_range))
        case BandJoin():
            return Bands(((0, 1, window),))


# The orders in which the results of a join can leave it: by the time of one input, or by the later
# of both, which is the time of the later tuple.


def by_ports(node: Join, by: Expression) -> tuple[int, ...] | None:
    """Inputs such that the latest of their times has the order of an expression; None if there are
    none.

    `a.t` and `date_trunc('hour', a.t)` go by the first input of `a, b`, `greatest(a.t, b.t) + 1` by
    both; `least(a.t, b.t)` by none."""
    if isinstance(by, Column):
        return (node.attributes.index(by),) if by in node.attributes else None
    if isinstance(by, Call) and by.function == "greatest":
        if not set(by.arguments) <= set(node.attributes):
            return None
        return tuple(sorted({node.attributes.index(each) for each in by.arguments}))
    operands = rising_operands(by) if is_steady(by) else ()
    return by_ports(node, operands[0]) if len(operands) == 1 else None


def latest_of(node: Join, ports: tuple[int, ...]) -> Expression:
    """Expression by which results are sorted, given the ports that determine the order."""
    return _greatest([node.attributes[port] for port in ports])


def latest_of_all(node: Join) -> Expression:
    """Expression by which results of a join are sorted if the times of all streams count,
    including those joined below it.
    """
    return _greatest(_times(node))


def _times(node: Join) -> list[Column]:
    """Times of all streams that one pipeline joins."""
    known = {each.left for each in node.also} | {each.right for each in node.also}
    found: list[Column] = []
    for branch, attribute in zip(node.branches, node.attributes, strict=True):
        before = _times(branch) if isinstance(branch, Join) and branch.hint is node.hint else []
        found += [each for each in before if each in known or each == attribute] or [attribute]
    return found


def _greatest(columns: Sequence[Column]) -> Expression:
    several = tuple(columns)
    return several[0] if len(several) == 1 else Call("greatest", several, several[0].type)


# A join rewritten as a tree of joins, each an operator with two inputs or more.


def arranged(join: Join, tree: Joined) -> Join:
    """Rewrite a join as a tree of joins with the same results. Columns are in the order of its
    leaves.

    >>> import penstock as ps
    >>> from penstock.plan.join_trees import left_deep
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
        """Times by which tuples are late: those of the inputs of the query, at the join where they
        enter; results are never late.
        """
        join = self.join
        if not join.late_by:
            return ()
        return tuple(
            join.late_by[part.number] if isinstance(part, JoinInput) else (join.attributes[first],)
            for part, first in zip(parts, timed, strict=True)
        )

    def _times(self, parts: Sequence[JoinTree]) -> tuple[tuple[int, ...], JoinWindow]:
        """For each part, the input by whose times it is looked up; and the window of all of
        them.
        """
        join = self.join
        if len(parts) == 2:
            pairs = product(parts[0].leaves, parts[1].leaves)
            pair = min(pairs, key=lambda each: width(between(join, *each)))
            return pair, window_of_two(between(join, *pair))
        all_inputs = range(len(join.branches))
        timed = tuple(
            min(
                part.leaves,
                key=lambda own: sum(width(between(join, own, n)) for n in all_inputs if n != own),
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
        """Conditions that can be tested at this node and at no part of it: equalities of parts,
        one after the other, and others that have all of their columns here. Those that may fail
        come last, at the top.
        """
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


# The finer of two times of a node: a tuple that is late by the other is late by it.

_BUCKETS = ("time_bucket", "number_bucket")


def is_finer(node: Node, one: Column, other: Column) -> bool:
    """Whether `one` is as fine as `other` or finer, as far as can be told: `ts` is finer than
    `date_trunc('hour', ts)`, and the end of a window is finer than its start.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"t": 4}], progress=ps.progress("t", delay=5))
    >>> windows = "TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), 5, 15))"
    >>> node = db.sql(f"SELECT t, window_start, window_end FROM {windows}").plan.input
    >>> t, start, end = map(Column.of, node.schema)
    >>> is_finer(node, t, end), is_finer(node, end, start), is_finer(node, start, end)
    (True, True, False)
    """
    return all(_finer(first, second) for first, second in _over_sources(node, one, other))


def _over_sources(
    node: Node, one: Expression, other: Expression
) -> Iterator[tuple[Expression, Expression]]:
    """Express both in terms of the input tuples, for every branch of a union."""
    match node:
        case Filter():
            yield from _over_sources(node.input, one, other)
        case Project():
            yield from _over_sources(node.input, below(one, node), below(other, node))
        case Union() if isinstance(one, Column) and isinstance(other, Column):
            places = one.position(node.schema), other.position(node.schema)
            for branch in node.branches:
                first, second = (Column.of(branch.schema.fields[place]) for place in places)
                yield from _over_sources(branch, first, second)
        case _:
            yield one, other


def _finer(one: Expression, other: Expression) -> bool:
    if one == other:
        return True
    columns = set(rises_with(other))
    if _without_casts(one) in columns:
        return len(columns) == 1
    first, second = _Stepped.of(one), _Stepped.of(other)
    if first is None or second is None or first.inner != second.inner:
        return False
    aligned = second.width % first.width == 0 and (second.origin - first.origin) % first.width == 0
    if not aligned:
        return False
    # a copy for a later window is late with the earliest one of the same length
    same = first.width == second.width and first.ahead == second.ahead
    return same or (first.width < second.width and second.ahead == 0)


class _Stepped(NamedTuple):
    """Bucket of an expression, moved by a constant; `ahead` is its distance from what it
    promises.
    """

    inner: Expression
    width: int
    origin: int
    moved: int
    ahead: int

    @staticmethod
    def of(expression: Expression) -> _Stepped | None:
        match expression:
            case Cast(operand, _, False):
                return _Stepped.of(operand)
            case Call("promised_as", (value, lower)):
                made, least = _Stepped.of(value), _Stepped.of(lower)
                if made is None or least is None or made[:3] != least[:3]:
                    return None
                return made._replace(ahead=made.moved - least.moved)
            case Call("add", (value, Literal(value=int() as by))):
                made = _Stepped.of(value)
                return None if made is None else made._replace(moved=made.moved + by)
            case Call(name, (width, inner, *origin)) if name in _BUCKETS:
                length, start = written(width), written(origin[0]) if origin else 0
                if isinstance(length, int) and isinstance(start, int):
                    return _Stepped(inner, length, start, 0, 0)
        return None


def _without_casts(expression: Expression) -> Expression:
    """Strip casts that change nothing but the width of a whole number."""
    while isinstance(expression, Cast) and expression.type.is_integer:
        if not expression.operand.type.is_integer:
            break
        expression = expression.operand
    return expression
