"""The node that looks tuples up in a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import PlanError, Span
from penstock.model.schema import Schema
from penstock.plan.expressions import Expression
from penstock.plan.nodes.joins import JoinKind
from penstock.plan.nodes.node import Node, Progressing, Unary
from penstock.plan.nodes.stateless import Scan


@dataclass(frozen=True)
class Lookup(Unary):
    """Every tuple with the rows of a table for which the condition is true.  The table is complete
    before the first tuple comes, so no window is needed and nothing is kept of tuples."""

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
    """What EXPLAIN prints of a step of a table: a line, or that of an answer with its own steps."""
    title, *others = node.details()
    if isinstance(node, Scan) and node.stream.answer is not None:
        return [title, *others]
    return [", ".join([title, *others])]
