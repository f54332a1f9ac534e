"""What nodes behind OVER, LIMIT and QUALIFY have in common: rows as they are, and beside them what
others of their partition say about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.schema import Field, Schema
from penstock.model.types import Kind
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.node import Node, Unary
from penstock.plan.nodes.over_calls import NamedOver, OrderKey, frames_of

TIMES = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


@dataclass(frozen=True)
class RowsOver(Unary):
    """For every row, the row with one more column for each call.  Rows of a partition are in the
    `order` of its keys; where those are equal, `ties` decide, from left to right, so that arrival
    makes no difference.

    With `most`, only those rows come that a Numbering among the calls gives a number up to a limit:
    the place of the call, and the limit.  Those up to `skip` by the first call do not come.  If it
    is `bare`, rows come without what the calls say of them."""

    stateful: ClassVar[bool] = True
    input: Node
    partition: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    ties: tuple[Column, ...]
    calls: tuple[NamedOver, ...]
    most: tuple[int, int] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    skip: int = 0
    bare: bool = False

    def __post_init__(self) -> None:
        if self.input.signed:
            raise PlanError(
                "OVER and LIMIT over items that may be taken back have no meaning",
                expected="a stream, or results that stay",
            )
        for frame in frames_of(self.calls):
            if frame.has_lengths:
                self._check_lengths()

    def _check_lengths(self) -> None:
        (*others, key) = self.order or (None,)
        if others or key is None or key.expression.type.kind not in TIMES:
            raise PlanError(
                "RANGE with lengths is measured on one column that ORDER BY names",
                expected="ORDER BY a time or a number",
            )

    @cached_property
    def schema(self) -> Schema:
        if self.bare:
            return self.input.schema
        made = tuple(Field(each.name, each.call.type) for each in self.calls)
        return Schema((*self.input.schema.fields, *made))

    @property
    def looked_at(self) -> list[Expression]:
        keys = [key.expression for key in self.order]
        calls = [each for call in self.calls for each in call.call.expressions]
        return [*self.partition, *keys, *self.ties, *calls]

    def details(self) -> list[str]:
        lines = [f"{type(self).__name__} " + ", ".join(map(str, self.calls))]
        if self.partition:
            lines.append("partition by: " + ", ".join(map(str, self.partition)))
        if self.order:
            lines.append("order by: " + ", ".join(map(str, self.order)))
        if self.most is not None:
            place, limit = self.most
            above = f" above {self.skip} and" * bool(self.skip)
            lines.append(f"rows: those with {self.calls[place]}{above} up to {limit}")
        elif self.skip:
            lines.append(f"rows: those with {self.calls[0]} above {self.skip}")
        return lines
