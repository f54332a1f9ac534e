"""The node that brings tuples of several streams together, and what its windows can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar, TypeAlias

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.schema import Schema
from penstock.model.types import BOOLEAN
from penstock.plan.algorithms import JoinAlgorithm, Reason
from penstock.plan.expressions import Call, Column, Expression, columns_of, conjuncts
from penstock.plan.join_trees.join_tree import Joined, flat
from penstock.plan.nodes.node import Node, Progressing
from penstock.plan.properties.can_fail import may_fail
from penstock.windows.joins import BandJoin, SlidingJoin, TumblingJoin


@dataclass(frozen=True, slots=True)
class Ranges:
    """Sliding windows: how long the tuples of each input stay, in the order of the inputs."""

    ticks: tuple[int, ...]

    def between(self, left: int, right: int) -> SlidingJoin:
        return SlidingJoin(self.ticks[left], self.ticks[right])


@dataclass(frozen=True, slots=True)
class Tumbling:
    window: TumblingJoin

    def between(self, left: int, right: int) -> TumblingJoin:  # noqa: ARG002
        return self.window


@dataclass(frozen=True, slots=True)
class Bands:
    """No windows, but the condition itself keeps the times of two inputs within a band."""

    bands: tuple[tuple[int, int, BandJoin], ...]

    def between(self, left: int, right: int) -> BandJoin | None:
        return next((band for i, j, band in self.bands if (i, j) == (left, right)), None)


JoinWindow: TypeAlias = Ranges | Tumbling | Bands


@dataclass(frozen=True, slots=True)
class TimeCondition:
    """Two more columns, of different inputs, whose times have to fit: inputs that are joins have
    several."""

    left: Column
    right: Column
    window: SlidingJoin | TumblingJoin | BandJoin

    def __str__(self) -> str:
        length = Domain(self.left.type).format_length
        if isinstance(self.window, TumblingJoin):
            return f"{self.left} and {self.right} in one RANGE TUMBLING {length(self.window.range)}"
        band = self.window.band if isinstance(self.window, SlidingJoin) else self.window
        return f"{length(band.low)} <= {self.right} - {self.left} <= {length(band.high)}"


class JoinKind(Enum):
    """What becomes of tuples without a partner, and of the partners."""

    INNER = "INNER"
    LEFT = "LEFT"  # left tuples without a partner come with NULLs
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"  # left tuples that have a partner, once and alone
    ANTI = "ANTI"  # left tuples that have none

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Of which sides tuples without a partner come."""
        left = self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)
        return left, self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def left_alone(self) -> bool:
        """Whether only the columns of the left side come out."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Join(Node):
    """The combinations, one tuple of each input, whose times fit pairwise and for which the
    condition is true.  N-ary, so that an optimizer can choose the order for each stream; what keeps
    tuples without a partner, or gives only left ones, has two inputs."""

    stateful: ClassVar[bool] = True
    branches: tuple[Node, ...]
    attributes: tuple[Column, ...]
    window: JoinWindow
    condition: Expression | None
    span: Span | None = field(default=None, compare=False, repr=False)
    kind: JoinKind = JoinKind.INNER
    also: tuple[TimeCondition, ...] = ()
    # by which columns tuples of each input are late; without them, by the attributes
    late_by: tuple[tuple[Column, ...], ...] = ()
    hint: JoinAlgorithm | None = field(default=None, compare=False)
    # of which operators several inputs are put together; None: nobody has said so yet
    tree: Joined | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.branches) < 2 or len(self.branches) != len(self.attributes):
            raise PlanError("a join needs at least two inputs, each with a windowing attribute")
        if self.kind is not JoinKind.INNER and len(self.branches) > 2:
            raise PlanError(f"a {self.kind.value} join has two inputs")
        if self.kind is not JoinKind.INNER and any(each.signed for each in self.branches):
            raise PlanError(
                f"a {self.kind.value} join cannot know which tuples of a difference have a partner",
                expected="streams without negative items, or an INNER join",
            )
        if self.condition is not None and self.condition.type != BOOLEAN:
            raise PlanError(f"a join condition is BOOLEAN, not {self.condition.type}")
        if self.tree is not None and sorted(self.tree.leaves) != list(range(len(self.branches))):
            raise PlanError(f"a tree of the inputs {self.tree.leaves}, out of {len(self.branches)}")
        for branch, times in zip(self.branches, self.times, strict=True):
            for each in times:
                if branch.promise(each) is None:
                    raise PlanError(f"{each} does not progress")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def times(self) -> tuple[tuple[Column, ...], ...]:
        """The columns of each input by whose bounds its tuples are late: the windowing attribute,
        then others that the condition holds as close to times of another input.  So a condition
        that follows from the others changes no answer."""
        if not self.late_by:
            return tuple((attribute,) for attribute in self.attributes)
        pairs = zip(self.attributes, self.late_by, strict=True)
        return tuple(tuple(dict.fromkeys((first, *others))) for first, others in pairs)

    @property
    def probes(self) -> tuple[tuple[int, ...], ...]:
        """In one operator for all inputs: in which order the tuples of each look for the others."""
        if self.tree is not None and self.tree.is_flat:
            return self.tree.probes
        return flat(len(self.branches)).probes

    @cached_property
    def schema(self) -> Schema:
        given = self.branches[:1] if self.kind.left_alone else self.branches
        return Schema(tuple(field_ for branch in given for field_ in branch.schema))

    @cached_property
    def pair_schema(self) -> Schema:
        """The columns of all inputs, which the condition is about."""
        return Schema(tuple(field_ for branch in self.branches for field_ in branch.schema))

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        """Columns that have to fit in time, as they stand among the results.  One that may be NULL,
        for want of a partner, promises nothing."""
        timed = {*self.attributes, *(c for each in self.also for c in (each.left, each.right))}
        if self.kind is not JoinKind.INNER:
            left, right = self.kind.keeps
            nullable = (right, left or self.kind.left_alone)
            for branch, may_be_null in zip(self.branches, nullable, strict=True):
                timed -= {Column.of(each) for each in branch.schema if may_be_null}
        return tuple(
            Progressing(each, "complete pairs") for each in self.schema if Column.of(each) in timed
        )

    def details(self) -> list[str]:
        kind = "" if self.kind is JoinKind.INNER else f"{self.kind.value} "
        lines = [f"{kind}Join{f' ON {self.condition}' if self.condition else ''}"]
        length = Domain(self.attributes[0].type).format_length
        match self.window:
            case Ranges(ticks):
                for attribute, span in zip(self.attributes, ticks, strict=True):
                    lines.append(f"window: [RANGE {length(span)}, WA {attribute}]")
            case Tumbling(window):
                by = ", ".join(map(str, self.attributes))
                lines.append(f"window: [RANGE TUMBLING {length(window.range)}, WA {by}]")
            case Bands(bands):
                for i, j, band in bands:
                    left, right = self.attributes[i], self.attributes[j]
                    low, high = length(band.low), length(band.high)
                    lines.append(f"band: {low} <= {right} - {left} <= {high}")
        lines += [f"also: {each}" for each in self.also]
        for times in self.times:
            if len(times) > 1:
                lines.append(f"late by: {', '.join(map(str, times))}")
        if self.hint is not None:
            lines.append(f"algorithm: {self.hint.name} ({self.hint.value}), {Reason.HINT.value}")
        return lines


def equal_keys(
    left: Schema, right: Schema, condition: Expression | None
) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
    """A condition on two inputs taken apart: the expressions of the left and of the right one that
    have to be equal, and what else has to hold.  Those that may fail on a tuple are not among the
    former: a tuple without a partner in time is no reason to fail.

    >>> from penstock.model.schema import Field
    >>> from penstock.model.types import BIGINT
    >>> a, b = Column("k", BIGINT, "a"), Column("k", BIGINT, "b")
    >>> fields = [Schema((Field("k", BIGINT, name),)) for name in "ab"]
    >>> equal_keys(*fields, Call("eq", (b, a), BOOLEAN)) == ([(a, b)], [])
    True
    """
    keys, others = [], []
    for each in conjuncts(condition) if condition is not None else ():
        pair = _sides(each, left, right)
        if pair is None:
            others.append(each)
        else:
            keys.append(pair)
    return keys, others


def by_risk(condition: Expression | None) -> tuple[list[Expression], list[Expression]]:
    """What has to hold, taken apart: what cannot fail, which is looked at first, and what may; that
    is computed only for tuples for which the former is true."""
    parts = conjuncts(condition) if condition is not None else ()
    return [e for e in parts if not may_fail(e)], [e for e in parts if may_fail(e)]


def sides_of_equality(each: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of an equality that cannot fail, of values of one type."""
    if not isinstance(each, Call) or each.function != "eq":
        return None
    one, other = each.arguments
    return None if one.type != other.type or may_fail(each) else (one, other)


def _sides(each: Expression, left: Schema, right: Schema) -> tuple[Expression, Expression] | None:
    """The two sides of an equality between one input and the other."""
    pair = sides_of_equality(each)
    if pair is None:
        return None
    one, other = pair
    if _is_of(one, left) and _is_of(other, right):
        return one, other
    return (other, one) if _is_of(one, right) and _is_of(other, left) else None


def _is_of(expression: Expression, schema: Schema) -> bool:
    """Whether an expression has columns, all of them of one input."""
    known = {(each.name, each.relation) for each in schema}
    found = [(each.name, each.relation) for each in columns_of(expression)]
    return bool(found) and all(each in known for each in found)
