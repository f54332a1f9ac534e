"""Which columns each part of a plan is asked for, from above."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from penstock.optimizer.rewrite import with_inputs
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.nodes.aggregates import GroupAggregate, WindowAggregate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.distinct_on import DistinctOn
from penstock.plan.nodes.joins import Join
from penstock.plan.nodes.lookup import Lookup
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.rows_over import RowsOver
from penstock.plan.nodes.running_join import RunningJoin
from penstock.plan.nodes.sequence import Sequence, SequenceMode
from penstock.plan.nodes.stateless import Filter, Project, Scan, Stamp
from penstock.plan.nodes.unnest import Unnest
from penstock.plan.streams import StreamDefinition

Needed: TypeAlias = frozenset[tuple[str | None, str]] | None  # relation and name; None: all
_NOTHING: frozenset[tuple[str | None, str]] = frozenset()


class ColumnsNeeded:
    """Goes down a plan; rules say what becomes of streams, and of the inputs of joins."""

    def scan(self, scan: Scan, needed: Needed) -> Scan:  # noqa: ARG002
        return scan

    def joined(self, join: Node, inputs: list[tuple[Node, Needed]]) -> list[Node]:  # noqa: ARG002
        """What comes to a join of two or more streams."""
        return [self.below(node, needed) for node, needed in inputs]

    def below(self, node: Node, needed: Needed) -> Node:
        """A part of a plan that is asked for some columns."""
        match node:
            case Scan():
                return self.scan(node, needed)
            case Filter():
                below = _with(needed, [node.predicate])
            case Stamp():
                below = _with(needed, [node.column])
            case Unnest():
                below = _with(needed, [node.expression])
            case Project():
                below = _with(_NOTHING, [column.expression for column in node.columns])
            case DistinctOn():
                below = _with(_NOTHING, [node.attribute, *node.keys, *node.columns])
            case RowsOver():
                below = _with(needed, node.looked_at)
            case WindowAggregate() | GroupAggregate():
                below = _with(_NOTHING, _looked_at(node))
            case Join():
                return self._join(node, needed)
            case RunningJoin():
                return self._running_join(node, needed)
            case Lookup():
                return self._lookup(node, needed)
            case Difference():
                return self._difference(node, needed)
            case Sequence():
                return self._sequence(node, needed)
            case _:  # columns that go by their place, or rows that are compared as a whole
                below = None
        return with_inputs(node, lambda each: self.below(each, below))

    def _join(self, node: Join, needed: Needed) -> Join:
        """What a condition is about, and what comes out; partners need not come out."""
        own: list[Expression] = [*node.attributes]
        own += [node.condition] if node.condition is not None else []
        own += [column for each in node.also for column in (each.left, each.right)]
        own += [column for times in node.times for column in times]
        partners = _NOTHING if node.kind.left_alone else needed
        first, *others = node.branches
        inputs = [(first, _with(needed, own)), *((each, _with(partners, own)) for each in others)]
        return replace(node, branches=tuple(self.joined(node, inputs)))

    def _running_join(self, node: RunningJoin, needed: Needed) -> RunningJoin:
        own = [node.condition] if node.condition is not None else []
        partners = _NOTHING if node.kind.left_alone else needed
        inputs = [(node.left, _with(needed, own)), (node.right, _with(partners, own))]
        left, right = self.joined(node, inputs)
        return replace(node, left=left, right=right)

    def _lookup(self, node: Lookup, needed: Needed) -> Lookup:
        own = [node.condition] if node.condition is not None else []
        rows = _NOTHING if node.kind.left_alone else needed
        table = self.below(node.table, _with(rows, own))
        return replace(node, input=self.below(node.input, _with(needed, own)), table=table)

    def _difference(self, node: Difference, needed: Needed) -> Difference:
        """Nothing of the right side comes out; the columns of the left one do under another
        name."""
        if needed is not None:
            pairs = zip(node.left.schema, node.schema, strict=False)  # but for the last one
            kept = [of for of, field in pairs if (field.relation, field.name) in needed]
            needed = frozenset((field.relation, field.name) for field in kept)
        (at_left, at_right), keys = node.attributes, node.keys
        left = self.below(node.left, _with(needed, [at_left, *(one for one, _ in keys)]))
        right = self.below(node.right, _with(_NOTHING, [at_right, *(other for _, other in keys)]))
        return replace(node, left=left, right=right)

    def _sequence(self, node: Sequence, needed: Needed) -> Sequence:
        """All columns decide which one of several tuples of one time is taken, from left to right:
        among the first ones, and where those are used up, among the second ones, too."""
        if node.mode is SequenceMode.CHRONICLE:
            needed = None
        own: list[Expression] = [*node.attributes]
        own += [node.condition] if node.condition is not None else []
        second = self.below(node.second, _with(needed, own))
        return replace(node, first=self.below(node.first, None), second=second)


def progress_columns(stream: StreamDefinition) -> set[str]:
    """The columns that a stream needs for what it promises."""
    progress = stream.progress
    if progress is None:
        return set()
    looked_at = [each for each in (progress.per, progress.computed) if each is not None]
    if progress.punctuation is not None:
        said = progress.punctuation
        looked_at += [said.when, said.bound, *said.group]
    return {progress.attribute, *(column.name for e in looked_at for column in columns_of(e))}


def _looked_at(node: WindowAggregate | GroupAggregate) -> list[Expression]:
    calls = [aggregate.call for aggregate in node.aggregates]
    found = [key.expression for key in node.keys]
    found += [argument for call in calls for argument in call.arguments]
    found += [call.where for call in calls if call.where is not None]
    if isinstance(node, WindowAggregate):
        found += [part.expression for part in node.partition]
        found += [node.attribute] if node.attribute is not None else []
    return found


def _with(needed: Needed, expressions: Iterable[Expression]) -> Needed:
    if needed is None:
        return None
    return needed | {_key(column) for each in expressions for column in columns_of(each)}


def _key(column: Column) -> tuple[str | None, str]:
    return column.relation, column.name
