"""Names and amounts, as they were written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import Span, nearest

ROW_UNITS = ("ROW", "ROWS", "TUPLE", "TUPLES")
_TYPES = (
    *("BOOLEAN", "INT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "VARCHAR", "BINARY"),
    *("DATE", "TIMESTAMP", "ARRAY", "STRUCT", "MAP"),
)
_MEANT = {  # what others call a type, or Python does
    **dict.fromkeys(("STR", "CLOB", "VARCHAR2", "NVARCHAR", "NVARCHAR2", "NCHAR"), "STRING"),
    **dict.fromkeys(("INT8", "UINT", "UBIGINT"), "BIGINT"),
    **dict.fromkeys(("NUMBER", "FIXED"), "DECIMAL(p,s)"),
    "BYTES": "BINARY",
}


def meant_type(word: str) -> str | None:
    """The type that is called so elsewhere, or looks most like it.

    >>> meant_type("str"), meant_type("BIGINTT")
    ('STRING', 'BIGINT')
    """
    close = nearest(word, _TYPES, limit=1, cutoff=0.7)
    return _MEANT.get(word.upper()) or (close[0] if close else None)


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """`5 MINUTES`, `1000 ROWS`, `100`, `'1 hour'`; the unit is upper-case or None."""

    amount: Decimal
    unit: str | None
    span: Span

    @property
    def is_rows(self) -> bool:
        return self.unit in ROW_UNITS

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}" if self.unit else str(self.amount)


# What stands in the brackets of a window, before any name is looked up.


@dataclass(frozen=True, slots=True)
class Attribute:
    """`ts`, `M1.ts`, `row-num` (no column) or `rank(ts)`."""

    column: exp.Expr | None
    ranked: bool
    span: Span


@dataclass(frozen=True, slots=True)
class WindowClause:
    """The brackets: what was written, in whatever order."""

    span: Span
    range: Quantity | None = None
    range_all: bool = False
    tumbling: bool = False
    slide: Quantity | None = None
    attribute: Attribute | None = None
    range_attribute: Attribute | None = None
    slide_attribute: Attribute | None = None
    partition: tuple[exp.Expr, ...] = ()
    origin: exp.Expr | None = None
    gap: Quantity | None = None
    longest: Quantity | None = None
    offset: Quantity | None = None  # how far from the origin windows begin, as peers write it
    by_start: bool = False  # windows start, not end, at multiples of the slide, as those of peers


# What stands in FROM: relations, with commas and JOINs between them.


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


# SELECTs, what stands between them, and what applies to a whole query.


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An expression with an optional alias; `*` and `r.*` are sqlglot's stars."""

    expression: exp.Expr
    alias: Name | None
    text: str  # as written, for the name of a column without an alias
    span: Span
    without: tuple[Name, ...] = ()  # * EXCEPT (…)
    replaced: tuple[SelectItem, ...] = ()  # * REPLACE (x + 1 AS x)
    renamed: tuple[tuple[Name, Name], ...] = ()  # * RENAME (x AS y)
    aliases: tuple[Name, ...] = ()  # posexplode(…) AS (pos, item)


@dataclass(frozen=True, slots=True)
class OrderItem:
    expression: exp.Expr
    descending: bool
    span: Span
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class LimitClause:
    """`LIMIT 3 OFFSET 6 BY k`: so many rows of every window, and of every key, behind as many
    others; None: all of them."""

    rows: int | None
    by: tuple[exp.Expr, ...]
    span: Span
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Select:
    items: tuple[SelectItem, ...]
    distinct: bool
    distinct_on: tuple[exp.Expr, ...]  # DISTINCT ON (…)
    window: WindowClause | None
    chains: tuple[JoinChain, ...]
    where: exp.Expr | None
    group_by: tuple[exp.Expr, ...]
    having: exp.Expr | None
    window_all: Quantity | None  # WINDOW 10 MINUTES
    order_by: tuple[OrderItem, ...]  # which rows DISTINCT ON and LIMIT take
    hint: Name | None  # SELECT /*+ WID */
    span: Span
    limit: LimitClause | None = None
    qualify: exp.Expr | None = None
    windows: tuple[exp.Window, ...] = ()  # WINDOW w AS (…), for OVER w
    grouping_sets: tuple[tuple[exp.Expr, ...], ...] = ()  # of the keys in GROUP BY; none: all


_CLAUSES = {
    "window": "a window behind the SELECT list",
    "where": "WHERE",
    "window_all": "WINDOW",
    "hint": "a hint",
    "windows": "WINDOW … AS",
    "tables": "WITH",
    "modifiers": "LATE, EMIT or CONSISTENCY",
}


def clauses_besides(said: Select | QuerySyntax | WindowClause, read: Iterable[str]) -> list[str]:
    """The clauses that are written, in the words of SQL, but those that are `read`: fields of what
    is `said`.  A clause that the language gets later is among them until it is read."""
    absent: tuple[object, ...] = (None, False, ())
    known = {*read, "span"}
    return [
        _CLAUSES.get(each.name, each.name.replace("_", " ").upper())
        for each in fields(said)
        if each.name not in known and getattr(said, each.name) not in absent
    ]


@dataclass(frozen=True, slots=True)
class ConsistencySyntax:
    """SERIAL, LEVEL with a number of rows, or WEAK."""

    following: Name
    rows: Quantity | None
    span: Span


@dataclass(frozen=True, slots=True)
class QuerySyntax:
    """One SELECT, or several with UNION ALL and the like between them, and what applies to the
    whole."""

    selects: tuple[Select, ...]
    late: Name | None
    amend_for: Quantity | None
    early: Quantity | None
    in_order: bool
    consistency: ConsistencySyntax | None
    modifiers: Span | None  # where LATE, EMIT or CONSISTENCY stands, if it does
    span: Span
    operations: tuple[Name, ...] = ()  # UNION ALL, UNION, INTERSECT or EXCEPT, between SELECTs
    tables: tuple[CommonTable, ...] = ()  # WITH
    changes: bool = False  # EMIT CHANGES
    keep_for: Quantity | None = None  # KEEP FOR, behind it


@dataclass(frozen=True, slots=True)
class CommonTable:
    """`name (columns) AS (query)`, behind WITH."""

    name: Name
    columns: tuple[Name, ...]
    query: QuerySyntax
    span: Span


# Statements: what is created, changed, shown and dropped, and queries.


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
