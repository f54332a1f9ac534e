"""Nodes over tables alone, which need all of their input before the first row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, RunError, Span
from penstock.plan.expressions import Column, Literal
from penstock.plan.nodes.node import Node, Progressing, Unary
from penstock.plan.nodes.over import OrderKey


@dataclass(frozen=True)
class OrderedRows(Unary):
    """ORDER BY over tables: all rows in the order of the keys, then of the columns of `ties`, so
    that the result does not depend on the order in which a table is read.
    """

    stateful: ClassVar[bool] = True
    input: Node
    order: tuple[OrderKey, ...]
    ties: tuple[Column, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def running(self) -> bool:
        return False  # its rows are complete

    @property
    def takes_back(self) -> bool:
        return False

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return ()

    def details(self) -> list[str]:
        return ["OrderedRows " + ", ".join(map(str, self.order))]


@dataclass(frozen=True)
class OrElse(Unary):
    """All rows, or `otherwise` if there are none; several are an error if a `single` one is
    required.
    """

    stateful: ClassVar[bool] = True
    input: Node
    otherwise: tuple[tuple[Literal, ...], ...]
    single: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        types = [field.type for field in self.input.schema]
        if any([each.type for each in row] != types for row in self.otherwise):
            raise PlanError("the row that stands for none has other columns")

    @property
    def running(self) -> bool:
        return False

    @property
    def takes_back(self) -> bool:
        return False

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return ()

    def several(self, count: int) -> RunError:
        """Error for an input with several rows."""
        return RunError(
            f"a sub-query that stands for a value has {count:,} rows",
            span=self.span,
            expected="one row, or none for NULL",
            hint="max(…) or another aggregate, or LIMIT 1",
        )

    def details(self) -> list[str]:
        rows = [f"({', '.join(map(str, row))})" for row in self.otherwise]
        return ["SingleRow or NULL" if self.single else f"OrElse {', '.join(rows)}"]
