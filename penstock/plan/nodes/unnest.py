"""UNNEST: every tuple once for each item of an ARRAY or MAP that it has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.errors import PlanError
from penstock.model.schema import Field, Schema
from penstock.model.types import Kind
from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Node, Progressing, Unary


@dataclass(frozen=True)
class Unnest(Unary):
    """The columns of the input, and behind them the item, or the key and the value; `spread`: the
    fields of items that are STRUCTs; `numbered`: and its number, from 1 on; or before it and from 0
    on, if it is `from_zero`.  If it is `outer`, tuples without items come once, with NULLs."""

    input: Node
    expression: Expression
    fields: tuple[Field, ...]
    outer: bool = False
    numbered: bool = False
    spread: bool = False
    from_zero: bool = False

    def __post_init__(self) -> None:
        if self.expression.type.kind not in (Kind.ARRAY, Kind.MAP):
            raise PlanError(f"UNNEST takes an ARRAY or MAP, not {self.expression.type.a}")
        if self.input.signed:
            raise PlanError(
                "UNNEST of items that may be taken back has no meaning",
                expected="UNNEST before EXCEPT ON",
            )

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema + Schema(self.fields)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return self.input.progress

    def details(self) -> list[str]:
        shown = ", ".join(map(str, self.fields))
        return [f"{'Outer ' * self.outer}Unnest {self.expression} AS {shown}"]
