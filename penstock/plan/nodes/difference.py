"""The node of what is on the left while nothing on the right is like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.schema import Field, Schema
from penstock.plan.expressions import Column
from penstock.plan.nodes.node import Node, Progressing


@dataclass(frozen=True)
class Difference(Node):
    """The tuples in the left window while no tuple with the same keys is in the right window: a
    positive item when one enters that state, a negative one when it leaves, at `changed_at`.

    A range of None keeps tuples for ever.  Tuples of an input that has signs itself are in their
    window from a positive item until it is taken back, or until they are too old, whichever comes
    first.  If that `progresses_twice`, the time of the left tuples does so, too, as far behind
    `changed_at` as these stay: a join by that time can forget partners."""

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
