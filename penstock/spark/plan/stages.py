"""A plan cut into stages: one stateful node each, fed through stateless ones.

Every stage is one shuffle.  Whatever stands between two stages, or between a scan and a stage, is
done before the shuffle, so that a stage gets rows that look as its node wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.errors import EngineError
from penstock.physical.asked import Asked
from penstock.operators.revising.build import asked_below, asked_of, asked_of_results
from penstock.plan.aggregates import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.expressions import Column, Expression
from penstock.plan.node import Node
from penstock.plan.query import QueryPlan
from penstock.plan.stateless import Filter, Project, Scan, Stamp, Union

# A query is a stage of its own where its rows have to wait until they are in order.
Stateful: TypeAlias = WindowAggregate | GroupAggregate | Distinct | QueryPlan


@dataclass(frozen=True)
class Branch:
    """Into a union through one of its inputs."""

    union: Union
    port: int


Step: TypeAlias = Filter | Project | Stamp | Branch


@dataclass(frozen=True)
class Entry:
    """A way to a stage, or to the end: from a scan or another stage through stateless steps."""

    leaf: Scan | Stage
    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Entry:
        return Entry(self.leaf, (*self.steps, step))


@dataclass(frozen=True)
class Stage:
    node: Stateful
    entries: tuple[Entry, ...]
    revising: Asked | None = None

    @property
    def routing(self) -> tuple[Expression, ...]:
        """Tuples that agree on these meet in one bucket; without any, there is only one bucket."""
        match self.node:
            case WindowAggregate() if self.node.counts_rows:
                return tuple(part.expression for part in self.node.partition)
            case WindowAggregate() | GroupAggregate():
                return tuple(key.expression for key in self.node.keys)
            case Distinct():
                return tuple(Column.of(field) for field in self.node.input.schema)
            case QueryPlan():
                return ()

    def stages(self) -> Iterator[Stage]:
        """This one after those that feed it."""
        for entry in self.entries:
            if isinstance(entry.leaf, Stage):
                yield from entry.leaf.stages()
        yield self


def entries_of_query(query: QueryPlan, node: Node) -> tuple[Entry, ...]:
    """All ways on which the rows of a query come out of its plan, which may have been rewritten."""
    asked = asked_of_results(query)
    entries = entries_of(node, asked)
    if not query.in_order or _leave_in_order(entries, query.revises):
        return entries
    return (Entry(Stage(replace(query, input=node), entries, asked)),)


def waits_for_order(query: QueryPlan) -> bool:
    """Whether a stage of its own puts the rows of a query in order."""
    leaves = [entry.leaf for entry in entries_of_query(query, query.input)]
    return any(isinstance(leaf, Stage) and isinstance(leaf.node, QueryPlan) for leaf in leaves)


def _leave_in_order(entries: tuple[Entry, ...], revises: bool) -> bool:
    """Whether rows leave in order by themselves, but for those of one micro-batch, and are never
    late: windows and groups close one after the other.  What is revised has no order."""
    stages = [entry.leaf.node for entry in entries if isinstance(entry.leaf, Stage)]
    if len(stages) < len(entries) or revises:
        return len(stages) == len(entries)
    return len(stages) == 1 and (
        isinstance(stages[0], WindowAggregate)
        or (isinstance(stages[0], GroupAggregate) and len(stages[0].progress) == 1)
    )


def entries_of(node: Node, asked: Asked | None = None) -> tuple[Entry, ...]:
    """All ways on which tuples come out of a node; `asked` is what is asked of them if they may be
    revised.

    before: Filter(WindowAggregate(Union(Scan a, Filter(Scan b))))
    after:  Entry(Stage(WindowAggregate, [Entry(a, [Branch 0]), Entry(b, [Filter, Branch 1])]),
                  [Filter])
    """
    match node:
        case Scan():
            _refuse_group_punctuation(node)
            return (Entry(node),)
        case Filter() | Project() | Stamp():
            below = entries_of(node.input, asked_below(node, asked))
            return tuple(entry.then(node) for entry in below)
        case Union():
            return tuple(
                entry.then(Branch(node, port))
                for port, branch in enumerate(node.branches)
                for entry in entries_of(branch, asked_below(node, asked, port))
            )
        case WindowAggregate() | GroupAggregate() | Distinct() if not node.inputs[0].signed:
            below = entries_of(node.input, asked_below(node, asked))
            return (Entry(Stage(node, below, asked_of(node, asked))),)
    raise EngineError(
        f"the spark engine cannot run a {type(node).__name__.lower()} yet",
        hint="the reference engine: --engine reference, or connect('reference')",
    )


def _refuse_group_punctuation(node: Scan) -> None:
    """The bound of a group would have to be known to all tasks before its next tuple."""
    progress = node.stream.progress
    if progress is not None and progress.group_punctuation is not None:
        raise EngineError(
            f"the spark engine cannot run punctuation for groups yet, which {node.stream.name} has "
            "(PUNCTUATED … FOR)",
            expected="a promise of the stream or of its sub-sources (PER)",
            hint="the local engine: --engine local, or connect('local')",
        )
