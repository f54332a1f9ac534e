"""Nodes that look at one tuple at a time: scan, stamp, filter, project, union."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import PlanError, Span
from penstock.model.domain import Domain
from penstock.model.room import EVERYWHERE, Room
from penstock.model.schema import Field, Schema
from penstock.model.types import BOOLEAN, Kind
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.node import Node, Progressing, Unary
from penstock.plan.streams import StreamDefinition


@dataclass(frozen=True)
class Scan(Node):
    """The tuples of a stream in arrival order, its columns under `alias`."""

    stream: StreamDefinition
    alias: str
    span: Span | None = field(default=None, compare=False, repr=False)
    room: Room = field(default=EVERYWHERE, compare=False, repr=False)  # for what tuples there is

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def schema(self) -> Schema:
        return self.stream.schema.under(self.alias)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        promise = self.stream.progress
        if promise is None or self.stream.is_latent:
            return ()
        attribute = self.stream.attribute
        words = promise.describe(Domain(attribute.type))
        return (Progressing(Field(attribute.name, attribute.type, self.alias), words),)

    def details(self) -> list[str]:
        if self.stream.answer is not None:
            return ["Answer over tables", *_outline(self.stream.answer)]
        alias = f" AS {self.alias}" if self.alias != self.stream.name else ""
        source = self.stream.source
        return [
            f"Scan {self.stream.name}{alias}",
            f"source: {source.describe() if source else 'none yet'}",
        ]


def _outline(node: Node, depth: int = 1) -> list[str]:
    """The steps of a plan, set in under each other."""
    lines = [f"{'  ' * depth}{', '.join(node.details()[:2])}"]
    if isinstance(node, Scan) and node.stream.answer is not None:
        lines = [f"{'  ' * depth}{node.details()[0]}"]
        below: tuple[Node, ...] = (node.stream.answer,)
    else:
        below = node.inputs
    return [*lines, *(line for each in below for line in _outline(each, depth + 1))]


@dataclass(frozen=True)
class Stamp(Unary):
    """Gives LATENT timestamps their values, just below the operator that needs them."""

    input: Node
    column: Column

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        position = self.column.position(self.schema)
        return (*self.input.progress, Progressing(self.schema.fields[position], "LATENT ORDERED"))

    def details(self) -> list[str]:
        return [f"Stamp {self.column}"]


@dataclass(frozen=True)
class Filter(Unary):
    """The tuples for which the predicate is true (not false, not NULL)."""

    input: Node
    predicate: Expression

    def __post_init__(self) -> None:
        if self.predicate.type != BOOLEAN:
            raise PlanError(f"a filter needs a BOOLEAN, not {self.predicate.type.a}")

    def details(self) -> list[str]:
        return [f"Filter {self.predicate}"]


@dataclass(frozen=True)
class Project(Unary):
    """New columns computed from each tuple."""

    input: Node
    columns: tuple[Named, ...]
    relation: str | None = None

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.expression.type.kind is Kind.NULL:
                raise PlanError(f"the type of column {column.name} is unknown")

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            tuple(
                Field(column.name, column.expression.type, self.relation) for column in self.columns
            )
        )

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        passed = []
        for column, output in zip(self.columns, self.schema, strict=True):
            promise = self.input.promise(column.expression)
            if promise is not None:
                passed.append(Progressing(output, promise))
        return tuple(passed)

    def details(self) -> list[str]:
        return ["Project " + ", ".join(map(str, self.columns))]


@dataclass(frozen=True)
class Union(Node):
    """All tuples of all inputs, duplicates kept, under one alias (Meld: nothing is buffered)."""

    branches: tuple[Node, ...]
    alias: str | None

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise PlanError("a union needs at least two inputs")
        shapes = {tuple((f.name, f.type) for f in branch.schema) for branch in self.branches}
        if len(shapes) != 1:
            raise PlanError("a union needs inputs with the same columns")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return self.branches[0].schema.under(self.alias)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        common = []
        for position, output in enumerate(self.schema):
            promises = [
                branch.promise(Column.of(branch.schema.fields[position]))
                for branch in self.branches
            ]
            if all(promises):
                common.append(Progressing(output, "the slowest input"))
        return tuple(common)

    def details(self) -> list[str]:
        return ["Union" + (f" AS {self.alias}" if self.alias else "")]
