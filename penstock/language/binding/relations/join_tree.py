"""FROM as a tree: what is joined with what, and where every condition belongs.

A condition goes down to where it means the same.  What is asked of a side whose tuples come also
without a partner must not take tuples away below the join that lets them through: ON decides who is
a partner, WHERE who stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from penstock.errors import Span
from penstock.language.binding.relations.relations import BoundSource
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.nodes.joins import JoinKind

Keys: TypeAlias = frozenset[tuple[str, str | None]]  # names and relations of columns


@dataclass(eq=False)
class Leaf:
    """A relation, and the conditions on it alone."""

    source: BoundSource
    predicates: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return frozenset((each.name, each.relation) for each in self.source.node.schema)

    def place(self, predicate: Expression) -> None:
        """Take in a condition on what comes out."""
        self.predicates.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(eq=False)
class Inner:
    """Any number of inputs whose combinations fulfil all conditions."""

    parts: tuple[Tree, ...]
    predicates: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return frozenset(self._owners)

    @cached_property
    def _owners(self) -> dict[tuple[str, str | None], int]:
        return {key: place for place, part in enumerate(self.parts) for key in part.columns}

    def place(self, predicate: Expression) -> None:
        owners = {self._owners[key] for key in keys_of(predicate)}
        if len(owners) == 1:
            self.parts[owners.pop()].place(predicate)
        else:
            self.predicates.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()


@dataclass(eq=False)
class Paired:
    """Two inputs, and what becomes of tuples without a partner.  `condition` decides who is a
    partner; what is `above` the join, which of the results stay."""

    kind: JoinKind
    left: Tree
    right: Tree
    span: Span
    condition: list[Expression] = field(default_factory=list)
    above: list[Expression] = field(default_factory=list)

    @cached_property
    def columns(self) -> Keys:
        return self.left.columns if self.kind.left_alone else self.left.columns | self.right.columns

    def place(self, predicate: Expression) -> None:
        """Only tuples of a side that never lacks can be looked at before they are joined."""
        keys = keys_of(predicate)
        if keys and keys <= self.left.columns and self.kind in _LEFT_STAYS:
            self.left.place(predicate)
        elif keys and keys <= self.right.columns and self.kind is JoinKind.RIGHT:
            self.right.place(predicate)
        else:
            self.above.append(predicate)

    def place_on(self, predicate: Expression) -> None:
        """Take in a condition on pairs.  A side whose tuples do not come without a partner can be
        looked at before; it then only has fewer partners to offer."""
        keys = keys_of(predicate)
        keeps_left, keeps_right = self.kind.keeps
        if keys and keys <= self.right.columns and not keeps_right:
            self.right.place(predicate)
        elif keys and keys <= self.left.columns and not keeps_left:
            self.left.place(predicate)
        else:
            self.condition.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield from self.left.leaves()
        yield from self.right.leaves()


_LEFT_STAYS = (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


@dataclass(eq=False)
class AsOf:
    """Tuples with what another stream had said last at their time."""

    left: Tree
    right: Leaf
    time: Column
    keeps: bool  # tuples for which it had said nothing
    span: Span
    condition: list[Expression] = field(default_factory=list)
    above: list[Expression] = field(default_factory=list)
    said: Column | None = None  # the time of the other stream, where one is named

    @cached_property
    def columns(self) -> Keys:
        return self.left.columns | self.right.columns

    def place(self, predicate: Expression) -> None:
        """What was said last is not what was said last among the tuples that fulfil a condition."""
        keys = keys_of(predicate)
        if keys and keys <= self.left.columns:
            self.left.place(predicate)
        else:
            self.above.append(predicate)

    def place_on(self, predicate: Expression) -> None:
        keys = keys_of(predicate)
        if keys and keys <= self.right.columns:
            self.right.place(predicate)
        elif keys and keys <= self.left.columns and not self.keeps:
            self.left.place(predicate)
        else:
            self.condition.append(predicate)

    def leaves(self) -> Iterator[Leaf]:
        yield from self.left.leaves()
        yield self.right


Tree: TypeAlias = Leaf | Inner | Paired | AsOf


def inner(left: Tree, right: Tree) -> Inner:
    """Both, with what they are made of side by side."""
    sides = [each if isinstance(each, Inner) else Inner((each,)) for each in (left, right)]
    parts = tuple(part for side in sides for part in side.parts)
    return Inner(parts, [predicate for side in sides for predicate in side.predicates])


def keys_of(predicate: Expression) -> Keys:
    return frozenset((each.name, each.relation) for each in columns_of(predicate))
