"""The node that takes one row of every key from each window: the first, or the last."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.schema import Field, Schema
from penstock.model.types import BIGINT, Type
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.aggregates import describe_sliding, type_of_bounds
from penstock.plan.nodes.node import Node, Progressing, Unary
from penstock.windows.sliding import Sliding


@dataclass(frozen=True)
class DistinctOn(Unary):
    """For every window, and every key among its tuples: the `columns` of the first tuple, or of the
    last.  Of those at one time it is the least, or the greatest, by these columns from left to
    right, so that arrival makes no difference."""

    stateful: ClassVar[bool] = True
    input: Node
    window: Sliding
    attribute: Expression
    keys: tuple[Expression, ...]
    columns: tuple[Column, ...]
    last: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.input.promise(self.attribute) is None:
            raise PlanError(f"{self.attribute} does not progress")
        for key in self.keys:
            if key.type.is_nested:
                raise PlanError(f"rows cannot be told apart by {key}, {key.type.a}")
        if self.input.signed:
            raise PlanError("DISTINCT ON over a difference has no meaning")

    @property
    def bound_type(self) -> Type:
        return type_of_bounds(self.attribute.type)

    @cached_property
    def schema(self) -> Schema:
        bounds = self.bound_type
        return Schema(
            (
                Field("window_id", BIGINT),
                Field("window_start", bounds),
                Field("window_end", bounds),
                *(Field(each.name, each.type, each.relation) for each in self.columns),
            )
        )

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        names = ("window_start", "window_end", "window_id")
        return tuple(
            Progressing(self.schema.fields[self.schema.index(name)], "closed windows")
            for name in names
        )

    def details(self) -> list[str]:
        shown = describe_sliding(self.window, str(self.attribute), Domain(self.attribute.type))
        return [
            f"DistinctOn {', '.join(map(str, self.keys))}",
            f"window: [{', '.join(shown)}]",
            f"row: the {'last' if self.last else 'first'} by {self.attribute}",
        ]
