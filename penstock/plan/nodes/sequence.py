"""The node of tuples that follow others."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.schema import Schema
from penstock.model.types import BOOLEAN
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.node import Node, Progressing


class SequenceMode(Enum):
    RECENT = "RECENT"  # the latest first tuple, which may be used again
    CHRONICLE = "CHRONICLE"  # the earliest unused first tuple, which is used up


@dataclass(frozen=True)
class Sequence(Node):
    """Every tuple of `second` with the tuple of `first` that it follows.  `keeps` says of which of
    the two tuples without a partner come, with NULLs beside them."""

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
