"""A join that nothing bounds: all tuples of both inputs are kept, and its answer may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.schema import Schema
from penstock.model.types import BOOLEAN
from penstock.plan.expressions import Expression
from penstock.plan.nodes.joins import JoinKind
from penstock.plan.nodes.node import Node, Progressing


@dataclass(frozen=True)
class RunningJoin(Node):
    """The pairs for which the condition is true, whenever their tuples came; and tuples without a
    partner where they are asked for, until they have one.  Inputs may be running answers."""

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
        """The columns of both inputs, which the condition is about."""
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
