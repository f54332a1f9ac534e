"""Logical plan nodes: the base class, and the nodes that handle one tuple at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.ticks import EVERYWHERE, Domain, Room
from penstock.model.types import BOOLEAN, Field, Kind, Schema
from penstock.plan.expressions import Column, Expression, Named, rises_with
from penstock.plan.streams import StreamDefinition


@dataclass(frozen=True, slots=True)
class Progressing:
    """A column with punctuations, and the origin of its bounds."""

    field: Field
    promise: str

    def __str__(self) -> str:
        return f"{self.field.qualified} ({self.promise})"


class Node(ABC):
    """Logical plan node: a frozen dataclass per kind; nodes are equal when their structure and
    expressions are equal.
    """

    stateful: ClassVar[bool] = False  # whether state of earlier tuples is kept for later ones

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]: ...

    @cached_property
    @abstractmethod
    def schema(self) -> Schema: ...

    @cached_property
    @abstractmethod
    def progress(self) -> tuple[Progressing, ...]: ...

    @abstractmethod
    def details(self) -> list[str]:
        """Lines for EXPLAIN besides schema and progress; the first is a title."""

    @cached_property
    def depth(self) -> int:
        """Height of the tree of nodes."""
        return 1 + max((node.depth for node in self.inputs), default=0)

    @property
    def signed(self) -> bool:
        """Whether negative items may come out."""
        return any(node.signed for node in self.inputs)

    @property
    def running(self) -> bool:
        """Whether its rows are those of a running query, whose result changes as tuples come (EMIT
        CHANGES): an outdated row is retracted by its values.
        """
        return any(node.running for node in self.inputs)

    @property
    def takes_back(self) -> bool:
        """Whether rows of a running query are ever retracted."""
        return any(node.takes_back for node in self.inputs)

    def walk(self) -> Iterator[Node]:
        yield self
        for node in self.inputs:
            yield from node.walk()

    def promise(self, expression: Expression) -> str | None:
        """Origin of the bound on later values of the expression; None if it has none."""
        columns = rises_with(expression)
        promises = []
        for column in columns:
            for progressing in self.progress:
                field = progressing.field
                if (field.name, field.relation) == (column.name, column.relation):
                    promises.append(progressing.promise)
        return ", ".join(promises) if columns and len(promises) == len(columns) else None


class Unary(Node):
    """Node with one input; its columns and progress are those of the input unless overridden."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return self.input.progress


# Nodes that handle one tuple at a time: scan, stamp, filter, project, union.


@dataclass(frozen=True)
class Scan(Node):
    """The tuples of a stream in arrival order, its columns under `alias`."""

    stream: StreamDefinition
    alias: str
    span: Span | None = field(default=None, compare=False, repr=False)
    room: Room = field(default=EVERYWHERE, compare=False, repr=False)  # allowed ticks of tuples

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
    """Steps of a plan, indented under each other."""
    lines = [f"{'  ' * depth}{', '.join(node.details()[:2])}"]
    if isinstance(node, Scan) and node.stream.answer is not None:
        lines = [f"{'  ' * depth}{node.details()[0]}"]
        below: tuple[Node, ...] = (node.stream.answer,)
    else:
        below = node.inputs
    return [*lines, *(line for each in below for line in _outline(each, depth + 1))]


@dataclass(frozen=True)
class Stamp(Unary):
    """Stamps LATENT timestamps, just below the operator that needs them."""

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
    """Tuples for which the predicate is true (not false, not NULL)."""

    input: Node
    predicate: Expression

    def __post_init__(self) -> None:
        if self.predicate.type != BOOLEAN:
            raise PlanError(f"a filter needs a BOOLEAN, not {self.predicate.type.a}")

    def details(self) -> list[str]:
        return [f"Filter {self.predicate}"]


@dataclass(frozen=True)
class Project(Unary):
    """Projection: columns computed from each tuple."""

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
    """UNION ALL of the inputs under one alias (Meld: nothing is buffered)."""

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


# UNNEST: every tuple once for each item of an ARRAY or MAP that it has.


@dataclass(frozen=True)
class Unnest(Unary):
    """UNNEST: the columns of the input, followed by the item, or by the key and the value.

    With `spread`, items that are STRUCTs become their fields; with `numbered`, the number of the
    item follows, from 1 on, or precedes it, from 0 on, if `from_zero`. With `outer`, tuples
    without items come once, with NULLs.
    """

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
