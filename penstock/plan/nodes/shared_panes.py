"""Nodes for aggregations of several queries over one stream: tuples are folded into panes once, and
every query makes its own windows of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from penstock.model.schema import Schema
from penstock.plan.expressions import Expression, Named
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node, Progressing, Unary


@dataclass(frozen=True)
class SharedPanes(Unary):
    """The tuples of a stream by groups and pieces of time, for whoever asks: which tuples, which
    aggregates and how long the pieces are, those above say.  What comes out are only tuples that
    have broken a promise, because these are in different windows of every query."""

    stateful: ClassVar[bool] = True
    input: Node
    attribute: Expression
    keys: tuple[Named, ...]
    key_order: tuple[int, ...]
    origin: int

    def details(self) -> list[str]:
        by = ", ".join(str(key.expression) for key in self.keys)
        return [f"SharedPanes over {self.attribute}" + (f" by {by}" if by else "")]


@dataclass(frozen=True)
class WindowsOfPanes(Unary):
    """What an aggregation over some of the tuples gives, made of panes that others use as well."""

    stateful: ClassVar[bool] = True
    input: SharedPanes
    aggregate: WindowAggregate
    predicate: Expression | None

    @cached_property
    def schema(self) -> Schema:
        return self.aggregate.schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return self.aggregate.progress

    def details(self) -> list[str]:
        where = [] if self.predicate is None else [f"where: {self.predicate}"]
        return [*self.aggregate.details(), *where]
