"""Nodes that bring tuples of several streams together: join, difference, sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar, TypeAlias

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.schema import Field, Schema
from penstock.model.types import BOOLEAN
from penstock.plan.expressions import Column, Expression
from penstock.plan.node import Node, Progressing
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


@dataclass(frozen=True)
class Join(Node):
    """The combinations, one tuple of each input, whose times fit pairwise and for which the
    condition is true.  N-ary, so that an optimizer can choose the order for each stream."""

    stateful: ClassVar[bool] = True
    branches: tuple[Node, ...]
    attributes: tuple[Column, ...]
    window: JoinWindow
    condition: Expression | None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.branches) < 2 or len(self.branches) != len(self.attributes):
            raise PlanError("a join needs at least two inputs, each with a windowing attribute")
        if self.condition is not None and self.condition.type != BOOLEAN:
            raise PlanError(f"a join condition is BOOLEAN, not {self.condition.type}")
        for branch, attribute in zip(self.branches, self.attributes, strict=True):
            if branch.promise(attribute) is None:
                raise PlanError(f"{attribute} does not progress")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(field_ for branch in self.branches for field_ in branch.schema))

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return tuple(
            Progressing(self.schema.fields[attribute.position(self.schema)], "complete pairs")
            for attribute in self.attributes
        )

    def details(self) -> list[str]:
        lines = [f"Join{f' ON {self.condition}' if self.condition else ''}"]
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
        return lines


@dataclass(frozen=True)
class Difference(Node):
    """The tuples in the left window while no tuple with the same keys is in the right window: a
    positive item when one enters that state, a negative one when it leaves, at `changed_at`.

    A range of None keeps tuples for ever."""

    stateful: ClassVar[bool] = True
    left: Node
    right: Node
    keys: tuple[tuple[Column, Column], ...]
    attributes: tuple[Column, Column]
    ranges: tuple[int | None, int | None]
    alias: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise PlanError("a difference needs at least one column to compare")
        if any(span is not None and span < 0 for span in self.ranges):
            raise PlanError("a window is not shorter than nothing")
        if self.left.signed or self.right.signed:
            raise PlanError("a difference of a difference has no meaning yet")

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
        return (Progressing(self.schema.fields[-1], "the slowest input"),)

    def details(self) -> list[str]:
        by = ", ".join(left.name for left, _ in self.keys)
        lines = [f"Difference ON ({by})"]
        for attribute, span in zip(self.attributes, self.ranges, strict=True):
            length = "ALL" if span is None else Domain(attribute.type).format_length(span)
            lines.append(f"window: [RANGE {length}, WA {attribute}]")
        return lines


class SequenceMode(Enum):
    RECENT = "RECENT"  # the latest first tuple, which may be used again
    CHRONICLE = "CHRONICLE"  # the earliest unused first tuple, which is used up


@dataclass(frozen=True)
class Sequence(Node):
    """Every tuple of `second` with the tuple of `first` that it follows."""

    stateful: ClassVar[bool] = True
    first: Node
    second: Node
    attributes: tuple[Column, Column]
    mode: SequenceMode
    condition: Expression | None
    within: int | None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
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
        followed = self.attributes if self.within is not None else self.attributes[1:]
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
        return lines
