"""A physical plan cut into stages: one stateful operator each, fed through stateless steps.

Every stage is one shuffle.  Whatever stands between two stages, or between a scan and a stage, is
done before the shuffle, so that a stage gets rows that look as its operator wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.model.schema import Schema
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.expressions import Expression
from penstock.plan.joins import Lookup
from penstock.plan.node import Node
from penstock.plan.stateless import Filter, Project, Scan, Stamp, Union
from penstock.plan.unnest import Unnest
from penstock.spark.tasks.tables import TableFile

if TYPE_CHECKING:
    from penstock.spark.sources.tables import TableFiles


@dataclass(frozen=True)
class Branch:
    """Into a union through one of its inputs."""

    union: Union
    port: int


@dataclass(frozen=True)
class TableStep:
    """Beside the rows of a table, which are in a file once somebody has read them."""

    lookup: Lookup
    file: TableFile | None = None

    @property
    def schema(self) -> Schema:
        return self.lookup.schema


Step: TypeAlias = Filter | Project | Stamp | Unnest | Branch | TableStep


@dataclass(frozen=True)
class Entry:
    """A way to a port of a stage, or to the end: from a scan or another stage through steps."""

    leaf: Scan | Stage
    steps: tuple[Step, ...] = ()
    port: int = 0

    def then(self, step: Step) -> Entry:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Stage:
    physical: PhysicalNode
    entries: tuple[Entry, ...]
    files: tuple[TableFile, ...] = ()  # where tuples are looked up: the rows for each bucket

    @property
    def passes_tuples(self) -> bool:
        """Whether what comes out are tuples, which may be late for others, and no results."""
        return isinstance(self.node, Lookup)

    @property
    def node(self) -> Node:
        return self.physical.logical

    @property
    def one_bucket(self) -> bool:
        """Whether all tuples have to meet, so that there is only one bucket."""
        return not all(port.keys or port.slices for port in self.physical.ports)

    def keys(self, port: int) -> tuple[Expression, ...]:
        """Tuples that agree on these meet in one bucket."""
        return self.physical.ports[port].keys or ()

    def schema(self, port: int) -> Schema:
        return self.node.inputs[port].schema

    def makes_panes(self, port: int) -> bool:
        """Whether tuples are folded before the shuffle."""
        return self.physical.ports[port].pre_aggregated

    def stages(self) -> Iterator[Stage]:
        """This one after those that feed it."""
        for entry in self.entries:
            if isinstance(entry.leaf, Stage):
                yield from entry.leaf.stages()
        yield self


def entries_of(node: PhysicalNode, tables: TableFiles | None = None) -> tuple[Entry, ...]:
    """All ways on which tuples come out of an operator.  Where it is to be run, somebody has to
    read the `tables` in it.

    before: Filter (Paned (Union (Read a, Filter (Read b))))
    after:  Entry(Stage(Paned, [Entry(a, [Branch 0]), Entry(b, [Filter, Branch 1])]), [Filter])
    """
    logical = node.logical
    if isinstance(logical, Scan):
        return (Entry(logical),)
    if node.stateful:
        entries = tuple(
            replace(entry, port=number)
            for number, each in enumerate(node.inputs)
            for entry in entries_of(each, tables)
        )
        files: tuple[TableFile, ...] = ()
        if isinstance(logical, Lookup) and tables is not None:
            files = tables.parts(logical)
        return (Entry(Stage(node, entries, files)),)
    if isinstance(logical, Union):
        return tuple(
            entry.then(Branch(logical, number))
            for number, each in enumerate(node.inputs)
            for entry in entries_of(each, tables)
        )
    step: Step
    if isinstance(logical, Lookup):
        step = TableStep(logical, tables.whole(logical) if tables is not None else None)
    else:
        assert isinstance(logical, Filter | Project | Stamp | Unnest)
        step = logical
    return tuple(entry.then(step) for entry in entries_of(node.inputs[0], tables))


def waits_for_order(root: PhysicalNode) -> bool:
    """Whether a stage of its own puts the rows of a query in order."""
    return root.operator is OperatorKind.ORDER
