"""A physical plan cut into stages: one stateful operator each, fed through stateless steps.

Every stage is one shuffle.  Whatever stands between two stages, or between a scan and a stage, is
done before the shuffle, so that a stage gets rows that look as its operator wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.model.schema import Schema
from penstock.physical.node import OperatorKind, PhysicalNode
from penstock.plan.expressions import Expression
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.shared_panes import SharedPanes, WindowsOfPanes
from penstock.plan.nodes.stateless import Filter, Project, Scan, Stamp, Union
from penstock.plan.nodes.unnest import Unnest
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
    """A way to a port of a stage, or to the end: from a scan or another stage through steps.  A
    stage that several queries share has a `part` for each of them."""

    leaf: Scan | Stage
    steps: tuple[Step, ...] = ()
    port: int = 0
    part: int = 0

    def then(self, step: Step) -> Entry:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Stage:
    """What comes out of the operator goes to its `parts`, if there are some: operators in the same
    bucket, each of which has results of its own."""

    physical: PhysicalNode
    entries: tuple[Entry, ...]
    files: tuple[TableFile, ...] = ()  # where tuples are looked up: the rows for each bucket
    parts: tuple[PhysicalNode, ...] = ()

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


class PanesInCommon:
    """The stages that fold tuples into panes for several queries, each of which has a part."""

    def __init__(self, roots: Iterable[PhysicalNode] = ()) -> None:
        self._parts: dict[SharedPanes, dict[PhysicalNode, int]] = {}
        self._made: dict[SharedPanes, Stage] = {}
        for root in roots:
            for node in root.walk():
                if isinstance(node.logical, WindowsOfPanes):
                    known = self._parts.setdefault(node.logical.input, {})
                    known.setdefault(_alone(node), len(known))

    def entry(self, node: PhysicalNode) -> Entry:
        """From the part that makes the windows of a query."""
        assert isinstance(node.logical, WindowsOfPanes)
        shared, parts = node.logical.input, self._parts[node.logical.input]
        if shared not in self._made:
            (folding,) = node.inputs
            entries = entries_of(folding.inputs[0])
            self._made[shared] = Stage(folding, entries, parts=tuple(parts))
        return Entry(self._made[shared], part=parts[_alone(node)])


@dataclass
class InCommon:
    """What several queries have in common, and the `nodes` that one of them asks for more than
    once: these are stages that are there once, if the same is asked of them."""

    panes: PanesInCommon = field(default_factory=PanesInCommon)
    nodes: frozenset[Node] = frozenset()
    _made: dict[PhysicalNode, Stage] = field(default_factory=dict)

    def stage(self, node: PhysicalNode, make: Callable[[], Stage]) -> Stage:
        if node.logical not in self.nodes:
            return make()
        alone = _alone(node)
        if alone not in self._made:
            self._made[alone] = make()
        return self._made[alone]


def _alone(node: PhysicalNode) -> PhysicalNode:
    """Without notes on who asks for it."""
    return replace(node, notes=())


def entries_of(
    node: PhysicalNode, tables: TableFiles | None = None, common: InCommon | None = None
) -> tuple[Entry, ...]:
    """All ways on which tuples come out of an operator.  Where it is to be run, somebody has to
    read the `tables` in it.  Stages that are in `common` are made once.

    before: Filter (Paned (Union (Read a, Filter (Read b))))
    after:  Entry(Stage(Paned, [Entry(a, [Branch 0]), Entry(b, [Filter, Branch 1])]), [Filter])
    """
    logical = node.logical
    common = InCommon() if common is None else common
    if isinstance(logical, Scan):
        return (Entry(logical),)
    if isinstance(logical, WindowsOfPanes):
        return (common.panes.entry(node),)
    if node.stateful:
        return (Entry(common.stage(node, lambda: _stage(node, tables, common))),)
    if isinstance(logical, Union):
        return tuple(
            entry.then(Branch(logical, number))
            for number, each in enumerate(node.inputs)
            for entry in entries_of(each, tables, common)
        )
    step: Step
    if isinstance(logical, Lookup):
        step = TableStep(logical, tables.whole(logical) if tables is not None else None)
    else:
        assert isinstance(logical, Filter | Project | Stamp | Unnest)
        step = logical
    return tuple(entry.then(step) for entry in entries_of(node.inputs[0], tables, common))


def _stage(node: PhysicalNode, tables: TableFiles | None, common: InCommon) -> Stage:
    entries = tuple(
        replace(entry, port=number)
        for number, each in enumerate(node.inputs)
        for entry in entries_of(each, tables, common)
    )
    files: tuple[TableFile, ...] = ()
    if isinstance(node.logical, Lookup) and tables is not None:
        files = tables.parts(node.logical)
    return Stage(node, entries, files)


def waits_for_order(root: PhysicalNode) -> bool:
    """Whether a stage of its own puts the rows of a query in order."""
    return root.operator is OperatorKind.ORDER
