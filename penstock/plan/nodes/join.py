"""Joins: of several streams within windows, with tables, without bounds (EMIT CHANGES), EXCEPT ON
and sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar, TypeAlias

from penstock.errors import PlanError, Span
from penstock.model.ticks import Domain
from penstock.model.types import BOOLEAN, Field, Schema
from penstock.plan.algorithms import JoinAlgorithm, Reason
from penstock.plan.expressions import Call, Column, Expression, columns_of, conjuncts, may_fail
from penstock.plan.join_trees import Joined, flat
from penstock.plan.join_windows import BandJoin, SlidingJoin, TumblingJoin
from penstock.plan.nodes.node import Node, Progressing, Scan, Unary


@dataclass(frozen=True, slots=True)
class Ranges:
    """Sliding windows: the RANGE of each input, in the order of the inputs."""

    ticks: tuple[int, ...]

    def between(self, left: int, right: int) -> SlidingJoin:
        return SlidingJoin(self.ticks[left], self.ticks[right])


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Tumbling windows of one length for all inputs."""

    window: TumblingJoin

    def between(self, left: int, right: int) -> TumblingJoin:  # noqa: ARG002
        return self.window


@dataclass(frozen=True, slots=True)
class Bands:
    """No windows: the join condition itself keeps the times of two inputs within a band."""

    bands: tuple[tuple[int, int, BandJoin], ...]

    def between(self, left: int, right: int) -> BandJoin | None:
        return next((band for i, j, band in self.bands if (i, j) == (left, right)), None)


JoinWindow: TypeAlias = Ranges | Tumbling | Bands


@dataclass(frozen=True, slots=True)
class TimeCondition:
    """Time condition on two more columns of different inputs: inputs that are joins have several
    times.
    """

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
    """Kind of a join: which tuples without a partner come, and whether partners do."""

    INNER = "INNER"
    LEFT = "LEFT"  # left tuples without a partner come with NULLs
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"  # left tuples that have a partner, once and alone
    ANTI = "ANTI"  # left tuples that have none

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Whether tuples without a partner come from the left and from the right side."""
        left = self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)
        return left, self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def left_alone(self) -> bool:
        """Whether the output has only the columns of the left side."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Join(Node):
    """Window join: the combinations, one tuple of each input, whose times fit pairwise and for
    which the condition is true.

    It is n-ary, so that the optimizer can choose the order for each stream; joins that keep tuples
    without a partner, or give only left ones, have two inputs.
    """

    stateful: ClassVar[bool] = True
    branches: tuple[Node, ...]
    attributes: tuple[Column, ...]
    window: JoinWindow
    condition: Expression | None
    span: Span | None = field(default=None, compare=False, repr=False)
    kind: JoinKind = JoinKind.INNER
    also: tuple[TimeCondition, ...] = ()
    # columns of each input by which its tuples are late; without them, the attributes
    late_by: tuple[tuple[Column, ...], ...] = ()
    hint: JoinAlgorithm | None = field(default=None, compare=False)
    # operators that several inputs are joined by; None: not chosen yet
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
        """Columns of each input by whose bounds its tuples are late: the windowing attribute, then
        others that the condition bounds as closely to times of another input. So a condition that
        follows from the others changes no result.
        """
        if not self.late_by:
            return tuple((attribute,) for attribute in self.attributes)
        pairs = zip(self.attributes, self.late_by, strict=True)
        return tuple(tuple(dict.fromkeys((first, *others))) for first, others in pairs)

    @property
    def probes(self) -> tuple[tuple[int, ...], ...]:
        """Dataflow expressions in one operator for all inputs: for each input, the others in the
        order in which its tuples probe them.
        """
        if self.tree is not None and self.tree.is_flat:
            return self.tree.probes
        return flat(len(self.branches)).probes

    @cached_property
    def schema(self) -> Schema:
        given = self.branches[:1] if self.kind.left_alone else self.branches
        return Schema(tuple(field_ for branch in given for field_ in branch.schema))

    @cached_property
    def pair_schema(self) -> Schema:
        """Columns of all inputs, to which the condition refers."""
        return Schema(tuple(field_ for branch in self.branches for field_ in branch.schema))

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        """Time columns of the conditions that are columns of the result. One that may be NULL, for
        tuples without a partner, does not progress.
        """
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
        """Lines for EXPLAIN."""
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
    """Split a condition on two inputs into equalities, as pairs of left and right expressions, and
    the rest. Equalities that may fail on a tuple belong to the rest: a tuple without a partner in
    time must not fail.

    >>> from penstock.model.types import Field
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
    """Split a condition into conjuncts that cannot fail, which are tested first, and those that
    may, which are computed only for tuples for which the former are true.
    """
    parts = conjuncts(condition) if condition is not None else ()
    return [e for e in parts if not may_fail(e)], [e for e in parts if may_fail(e)]


def sides_of_equality(each: Expression) -> tuple[Expression, Expression] | None:
    """Sides of an equality that cannot fail, of values of one type; None for other conditions."""
    if not isinstance(each, Call) or each.function != "eq":
        return None
    one, other = each.arguments
    return None if one.type != other.type or may_fail(each) else (one, other)


def _sides(each: Expression, left: Schema, right: Schema) -> tuple[Expression, Expression] | None:
    """Sides of an equality between one input and the other, the left one first; None for other
    conditions.
    """
    pair = sides_of_equality(each)
    if pair is None:
        return None
    one, other = pair
    if _is_of(one, left) and _is_of(other, right):
        return one, other
    return (other, one) if _is_of(one, right) and _is_of(other, left) else None


def _is_of(expression: Expression, schema: Schema) -> bool:
    """Whether an expression has columns, and all of them belong to one input."""
    known = {(each.name, each.relation) for each in schema}
    found = [(each.name, each.relation) for each in columns_of(expression)]
    return bool(found) and all(each in known for each in found)


# Join of a stream with a table.


@dataclass(frozen=True)
class Lookup(Unary):
    """Lookup join: every tuple with the rows of a table for which the condition is true. The table
    is complete before the first tuple comes, so no window is needed, and no tuple is kept.
    """

    input: Node
    table: Node
    condition: Expression | None
    kind: JoinKind = JoinKind.INNER
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            raise PlanError("which rows of a table find no partner is known when the stream ends")
        if any(each.signed for each in self.table.walk()):
            raise PlanError("the items of a difference come and go, and a table does not")

    @cached_property
    def pair_schema(self) -> Schema:
        return self.input.schema + self.table.schema

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema if self.kind.left_alone else self.pair_schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return self.input.progress

    def details(self) -> list[str]:
        kind = "" if self.kind is JoinKind.INNER else f"{self.kind.value} "
        lines = [f"{kind}Lookup{f' ON {self.condition}' if self.condition else ''}"]
        for each in self.table.walk():
            lines += [f"table: {line}" for line in table_lines(each)]
        return lines


def table_lines(node: Node) -> list[str]:
    """Lines for EXPLAIN of a step of a table: one line, or the steps of a plan over tables."""
    title, *others = node.details()
    if isinstance(node, Scan) and node.stream.answer is not None:
        return [title, *others]
    return [", ".join([title, *others])]


# A join without bounds: all tuples of both inputs are kept, and its result may change.


@dataclass(frozen=True)
class RunningJoin(Node):
    """Join without bounds (EMIT CHANGES): the pairs for which the condition is true, at any
    distance in time; and tuples without a partner where the kind keeps them, until they have one.
    Inputs may be running queries.
    """

    stateful: ClassVar[bool] = True
    left: Node
    right: Node
    condition: Expression | None
    kind: JoinKind = JoinKind.INNER
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.left.signed or self.right.signed:
            raise PlanError(
                "the items of a difference come and go at times of their own, and a running answer"
                " knows none",
                expected="a stream, windows, or another running answer",
            )
        if self.condition is not None and self.condition.type != BOOLEAN:
            raise PlanError(f"a join condition is BOOLEAN, not {self.condition.type}")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def running(self) -> bool:
        return True

    @property
    def takes_back(self) -> bool:
        return any(self.kind.keeps) or self.left.takes_back or self.right.takes_back

    @cached_property
    def pair_schema(self) -> Schema:
        """Columns of both inputs, to which the condition refers."""
        return self.left.schema + self.right.schema

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema if self.kind.left_alone else self.pair_schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return ()  # a partner may come at any time

    def details(self) -> list[str]:
        kind = "" if self.kind is JoinKind.INNER else f"{self.kind.value} "
        on = f" ON {self.condition}" if self.condition else ""
        return [f"{kind}RunningJoin{on}", "keeps: every tuple of both inputs, for ever"]


# EXCEPT ON.


@dataclass(frozen=True)
class Difference(Node):
    """EXCEPT ON: the tuples in the left window while no tuple with the same keys is in the right
    window. A positive item is emitted when a tuple enters that state, a negative one when it
    leaves, at `changed_at`.

    A range of None keeps tuples for ever. Tuples of a signed input are in their window from a
    positive item until it is retracted, or until they are too old, whichever comes first. If it
    `progresses_twice`, the time of the left tuples progresses, too, as far behind `changed_at` as
    these stay: so a join by that time can expire partners.
    """

    stateful: ClassVar[bool] = True
    left: Node
    right: Node
    keys: tuple[tuple[Column, Column], ...]
    attributes: tuple[Column, Column]
    ranges: tuple[int | None, int | None]
    alias: str
    span: Span | None = field(default=None, compare=False, repr=False)
    progresses_twice: bool = False

    def __post_init__(self) -> None:
        if not self.keys:
            raise PlanError("a difference needs at least one column to compare")
        if any(span is not None and span < 0 for span in self.ranges):
            raise PlanError("a window is not shorter than nothing")
        if self.progresses_twice and self.ranges[0] is None:
            raise PlanError("items come for ever of tuples that stay for ever")
        if "changed_at" in self.left.schema.names:
            raise PlanError(
                "the left side has a column changed_at already, and the difference adds one",
                hint="a sub-query in which it is called something else: changed_at AS since",
            )

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def signed(self) -> bool:
        return True

    @cached_property
    def schema(self) -> Schema:
        changed = Field("changed_at", self.attributes[0].type)
        return Schema((*self.left.schema.fields, changed)).under(self.alias)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        changed = Progressing(self.schema.fields[-1], "the slowest input")
        if not self.progresses_twice:
            return (changed,)
        since = self.schema.fields[self.attributes[0].position(self.left.schema)]
        return (Progressing(since, "how long tuples stay"), changed)

    def details(self) -> list[str]:
        by = ", ".join(left.name for left, _ in self.keys)
        lines = [f"Difference ON ({by})"]
        for attribute, span in zip(self.attributes, self.ranges, strict=True):
            length = "ALL" if span is None else Domain(attribute.type).format_length(span)
            lines.append(f"window: [RANGE {length}, WA {attribute}]")
        return lines


# Sequences.


class SequenceMode(Enum):
    """Mode of a sequence: which of several first tuples is the partner of a second one."""

    RECENT = "RECENT"  # the latest first tuple, which may be used again
    CHRONICLE = "CHRONICLE"  # the earliest unused first tuple, which is used up


@dataclass(frozen=True)
class Sequence(Node):
    """SEQUENCE: every tuple of `second` with the tuple of `first` that it follows. `keeps` says of
    which of both tuples without a partner come, with NULLs for it.
    """

    stateful: ClassVar[bool] = True
    first: Node
    second: Node
    attributes: tuple[Column, Column]
    mode: SequenceMode
    condition: Expression | None
    within: int | None
    span: Span | None = field(default=None, compare=False, repr=False)
    keeps: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        if self.keeps[0] and self.within is None:
            raise PlanError("without WITHIN, a first tuple could be followed at any time")
        if self.first.signed or self.second.signed:
            raise PlanError("a sequence over a difference has no meaning yet")
        if self.within is not None and self.within < 0:
            raise PlanError("WITHIN must not be negative")
        if self.condition is not None and self.condition.type != BOOLEAN:
            raise PlanError(f"a sequence condition is BOOLEAN, not {self.condition.type}")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.first, self.second)

    @cached_property
    def schema(self) -> Schema:
        return self.first.schema + self.second.schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        first, second = self.attributes
        followed = []
        if self.within is not None and not self.keeps[1]:
            followed.append(first)
        if not self.keeps[0]:
            followed.append(second)
        return tuple(
            Progressing(self.schema.fields[attribute.position(self.schema)], "complete pairs")
            for attribute in followed
        )

    def details(self) -> list[str]:
        first, second = self.attributes
        lines = [f"Sequence {first} THEN {second} MODE {self.mode.value}"]
        if self.condition is not None:
            lines.append(f"on: {self.condition}")
        if self.within is not None:
            lines.append(f"within: {Domain(first.type).format_length(self.within)}")
        kept = [name for name, kept in zip(("first", "second"), self.keeps, strict=True) if kept]
        if kept:
            lines.append(f"without a partner: {' and '.join(kept)} tuples")
        return lines
