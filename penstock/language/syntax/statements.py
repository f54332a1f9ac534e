"""Statements: what is created, changed, shown and dropped, and queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import Span
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.queries import QuerySyntax
from penstock.language.syntax.relations import ValuesSyntax


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    name: Name
    type: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FilesSyntax:
    pattern: Name
    format: Name | None
    row_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class SocketSyntax:
    address: Name
    row_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class ProgressClause:
    """With an `expression`, the attribute is what its values are called; in Python it may also be a
    column whose name could be read as an expression."""

    attribute: Name
    span: Span
    timestamps: str = "EXTERNAL"
    rule: str | None = None  # ORDERED, DELAY, SLACK, PUNCTUATED
    amount: Quantity | None = None  # of DELAY and SLACK
    when: exp.Expr | None = None  # of PUNCTUATED
    bound: exp.Expr | None = None
    groups: tuple[Name, ...] = ()  # FOR which the bound holds; none: for all tuples
    per: exp.Expr | None = None
    per_file: bool = False
    idle_after: Quantity | None = None
    future_limit: Quantity | None = None
    skew: Quantity | None = None
    expression: exp.Expr | None = None
    perhaps: bool = False  # whether a column that is called like the attribute comes first


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: Name
    columns: tuple[ColumnSyntax, ...]
    source: FilesSyntax | SocketSyntax | ValuesSyntax | None
    progress: ProgressClause | None
    span: Span
    is_table: bool = False  # CREATE TABLE


@dataclass(frozen=True, slots=True)
class SplitBranch:
    name: Name
    where: exp.Expr | None  # None: OTHERWISE


@dataclass(frozen=True, slots=True)
class Split:
    source: Name
    branches: tuple[SplitBranch, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Drop:
    kind: str  # STREAM, TABLE, VIEW or QUERY
    name: Name
    if_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class IntoPlaces:
    """The files or directories for the rows of a query that runs at once, for its late tuples, and
    for what was rejected."""

    rows: Name | None = None
    late: Name | None = None
    rejected: Name | None = None

    @property
    def first(self) -> Name | None:
        """One of them, if there is any."""
        return self.rows or self.late or self.rejected


@dataclass(frozen=True, slots=True)
class CreateQuery:
    name: Name
    query: QuerySyntax
    span: Span
    into: IntoPlaces = IntoPlaces()


@dataclass(frozen=True, slots=True)
class CreateView:
    name: Name
    query: QuerySyntax
    replaces: bool  # OR REPLACE
    span: Span
    if_not_exists: bool = False
    materialized: bool = False


@dataclass(frozen=True, slots=True)
class AlterQuery:
    name: Name
    setting: Name
    value: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Show:
    what: str  # STREAMS, TABLES, VIEWS or QUERIES
    span: Span


@dataclass(frozen=True, slots=True)
class Describe:
    """The columns of what has a name, or of a query."""

    what: Name | QuerySyntax
    span: Span


@dataclass(frozen=True, slots=True)
class Explain:
    query: QuerySyntax
    span: Span
    physical: bool = False  # what runs, instead of what is asked
    schedule: bool = False  # by which rules
    dataflow: bool = False  # what the tuples of every stream go through
    conflicts: bool = False  # what gets in each other's way there
    analyze: bool = False  # what was measured in a run


Statement: TypeAlias = (
    CreateStream
    | CreateQuery
    | CreateView
    | AlterQuery
    | Show
    | Describe
    | Split
    | Drop
    | Explain
    | QuerySyntax
)
