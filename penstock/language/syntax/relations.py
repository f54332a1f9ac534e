"""What stands in FROM: relations, with commas and JOINs between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from penstock.errors import Span
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.windows import WindowClause

if TYPE_CHECKING:
    from penstock.language.syntax.queries import QuerySyntax


@dataclass(frozen=True, slots=True)
class NamedRelation:
    name: Name
    alias: Name | None
    window: WindowClause | None
    span: Span
    reserved: bool = False  # the name is a word of the language


@dataclass(frozen=True, slots=True)
class SubqueryRelation:
    query: QuerySyntax
    alias: Name | None
    window: WindowClause | None
    span: Span
    columns: tuple[Name, ...] = ()  # AS t (a, b)


@dataclass(frozen=True, slots=True)
class ValuesSyntax:
    """Rows that are written out, with the places where they stand."""

    rows: tuple[tuple[exp.Expr, ...], ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class WrittenRelation:
    """`(VALUES (1, 'a'), …) AS t (x, y)`: a table for one query."""

    values: ValuesSyntax
    alias: Name | None
    window: WindowClause | None
    span: Span
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionRelation:
    branches: tuple[Relation, ...]
    alias: Name | None
    window: WindowClause | None
    span: Span


@dataclass(frozen=True, slots=True)
class ExceptRelation:
    left: Relation
    right: Relation
    columns: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SequenceRelation:
    first: Relation
    second: Relation
    mode: str
    on: exp.Expr | None
    within: Quantity | None
    keep: Name | None  # FIRST, SECOND or BOTH: of which tuples without a partner come
    span: Span


@dataclass(frozen=True, slots=True)
class WindowedRelation:
    """`TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))`: every tuple with its windows."""

    kind: str  # TUMBLE, HOP, CUMULATE or SESSION
    relation: NamedRelation | SubqueryRelation
    time: exp.Expr
    lengths: tuple[exp.Expr, ...]
    alias: Name | None
    window: WindowClause | None
    span: Span
    partition: tuple[exp.Expr, ...] = ()  # of sessions
    described: bool = False  # with DESCRIPTOR, as those write it whose windows have a window_time

    @property
    def called(self) -> str:
        """The name of the relation, '' if it has none."""
        named = self.alias or self.relation.alias
        if named is None and isinstance(self.relation, NamedRelation):
            named = self.relation.name
        return named.text if named is not None else ""


@dataclass(frozen=True, slots=True)
class UnnestedRelation:
    """A relation, and the items of one of its ARRAYs or MAPs beside its tuples."""

    relation: Relation
    collection: exp.Expr
    alias: Name | None
    columns: tuple[Name, ...]
    outer: bool  # tuples without items come, too
    numbered: bool  # WITH ORDINALITY, posexplode
    span: Span
    called: str = "UNNEST"
    hidden: bool = False  # the items are found by the alias alone

    @property
    def exploded(self) -> bool:
        """As Spark does: posexplode counts from 0, before the item."""
        return self.called != "UNNEST"


Relation: TypeAlias = (
    NamedRelation
    | UnnestedRelation
    | SubqueryRelation
    | WrittenRelation
    | WindowedRelation
    | UnionRelation
    | ExceptRelation
    | SequenceRelation
)


@dataclass(frozen=True, slots=True)
class JoinSyntax:
    """A relation that is joined to those before it in its chain."""

    kind: str  # INNER, CROSS, or a kind of outer join
    relation: Relation
    on: exp.Expr | None
    as_of: exp.Expr | None  # the time at which a stream is looked up
    span: Span
    using: tuple[Name, ...] = ()  # columns that both sides have, which come once
    natural: bool = False  # USING all of them
    asof: bool = False  # AS OF a time that a comparison with one of the relation names
    matching: exp.Expr | None = None  # that comparison, if it does not stand in ON


@dataclass(frozen=True, slots=True)
class JoinChain:
    """Relations with JOIN between them.  Commas stand between chains."""

    first: Relation
    joins: tuple[JoinSyntax, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.first, *(join.relation for join in self.joins))

    def with_last(self, relation: Relation) -> JoinChain:
        """The chain with another relation in the place of its last one."""
        if not self.joins:
            return replace(self, first=relation)
        *before, last = self.joins
        return replace(self, joins=(*before, replace(last, relation=relation)))
