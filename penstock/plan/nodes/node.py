"""What every plan node has: inputs, a schema, the columns that progress, and words for EXPLAIN."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from penstock.model.schema import Field, Schema
from penstock.plan.expressions import Expression
from penstock.plan.properties.monotone import rises_with


@dataclass(frozen=True, slots=True)
class Progressing:
    """A column on which punctuations come, and what promises them."""

    field: Field
    promise: str

    def __str__(self) -> str:
        return f"{self.field.qualified} ({self.promise})"


class Node(ABC):
    """A frozen dataclass per kind; equal when structure and expressions are equal."""

    stateful: ClassVar[bool] = False  # whether what has come is kept for what comes

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
        """What EXPLAIN prints of the node besides its schema and progress; the first is a title."""

    @cached_property
    def depth(self) -> int:
        """How many nodes stand on top of each other."""
        return 1 + max((node.depth for node in self.inputs), default=0)

    @property
    def signed(self) -> bool:
        """Whether negative items may come out."""
        return any(node.signed for node in self.inputs)

    @property
    def running(self) -> bool:
        """Whether its rows are those of an answer that changes as tuples come (EMIT CHANGES): one
        that is wrong by now is taken back by its values."""
        return any(node.running for node in self.inputs)

    @property
    def takes_back(self) -> bool:
        """Whether rows of a running answer are ever taken back."""
        return any(node.takes_back for node in self.inputs)

    def walk(self) -> Iterator[Node]:
        yield self
        for node in self.inputs:
            yield from node.walk()

    def promise(self, expression: Expression) -> str | None:
        """What promises that later tuples have higher values of the expression, if anything."""
        columns = rises_with(expression)
        promises = []
        for column in columns:
            for progressing in self.progress:
                field = progressing.field
                if (field.name, field.relation) == (column.name, column.relation):
                    promises.append(progressing.promise)
        return ", ".join(promises) if columns and len(promises) == len(columns) else None


class Unary(Node):
    """A node with one input, whose columns and progress it passes on unless it says otherwise."""

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
