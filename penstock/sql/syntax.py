"""The syntax tree: statements, queries, relations, windows and names, as they were written, with
spans."""

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
    """Type that another system or Python calls by this word, or whose name is nearest to it.

    >>> meant_type("str"), meant_type("BIGINTT")
    ('STRING', 'BIGINT')
    """
    close = nearest(word, _TYPES, limit=1, cutoff=0.7)
    return _MEANT.get(word.upper()) or (close[0] if close else None)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier or a quoted text, with its span."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount with an upper-case unit or None: `5 MINUTES`, `1000 ROWS`, `100`, `'1 hour'`."""

    amount: Decimal
    unit: str | None
    span: Span

    @property
    def is_rows(self) -> bool:
        return self.unit in ROW_UNITS

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}" if self.unit else str(self.amount)


# Windows: the brackets, before any name is resolved.


@dataclass(frozen=True, slots=True)
class Attribute:
    """The attribute of a window: `ts`, `M1.ts`, `row-num` (no column) or `rank(ts)`."""

    column: exp.Expr | None
    ranked: bool
    span: Span


@dataclass(frozen=True, slots=True)
class WindowClause:
    """The brackets of a window, whatever order their parts were written in."""

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


# FROM: relations, with commas and JOINs between them.


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A stream, table, view or query by its name: `s AS a [RANGE 5 MINUTES]`."""

    name: Name
    alias: Name | None
    window: WindowClause | None
    span: Span
    reserved: bool = False  # the name is a word of the language


@dataclass(frozen=True, slots=True)
class SubqueryRelation:
    """A query in parentheses: `(SELECT …) AS t (a, b)`."""

    query: QuerySyntax
    alias: Name | None
    window: WindowClause | None
    span: Span
    columns: tuple[Name, ...] = ()  # AS t (a, b)


@dataclass(frozen=True, slots=True)
class ValuesSyntax:
    """Rows of VALUES, with their spans."""

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
    """Relations merged in FROM: `a UNION b`."""

    branches: tuple[Relation, ...]
    alias: Name | None
    window: WindowClause | None
    span: Span


@dataclass(frozen=True, slots=True)
class ExceptRelation:
    """A difference of two relations by columns in FROM."""

    left: Relation
    right: Relation
    columns: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SequenceRelation:
    """A sequence of two steps in FROM: a tuple, and one that follows it."""

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
    """A relation, joined to the items of one of its ARRAYs or MAPs."""

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
        """Whether it is a call of Spark's: posexplode counts from 0, before the item."""
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


# Queries: SELECTs, the set operations between them, and modifiers of a whole query.


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
    """An item of ORDER BY."""

    expression: exp.Expr
    descending: bool
    span: Span
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class LimitClause:
    """`LIMIT 3 OFFSET 6 BY k`: so many rows of every window and key, after skipping `offset`; None:
    all of them."""

    rows: int | None
    by: tuple[exp.Expr, ...]
    span: Span
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT with its clauses; a clause that is missing is None, False or empty."""

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
    """Name the clauses that are written, except those that are `read`: fields of what is `said`. A
    clause that the language gets later is named until it is read."""
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
    """One SELECT or several with set operations between them, and the modifiers of the whole."""

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


# Statements: definitions, commands and queries.


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    """A column of CREATE STREAM or CREATE TABLE: its name and type."""

    name: Name
    type: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FilesSyntax:
    """`FROM FILES 'pattern' FORMAT …`."""

    pattern: Name
    format: Name | None
    row_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class SocketSyntax:
    """`FROM SOCKET 'host:port'`."""

    address: Name
    row_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class ProgressClause:
    """PROGRESS ON of a stream. With an `expression`, the attribute is the name of its values; in
    Python it may also be a column whose name could be read as an expression."""

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
    """CREATE STREAM, or CREATE TABLE if `is_table`."""

    name: Name
    columns: tuple[ColumnSyntax, ...]
    source: FilesSyntax | SocketSyntax | ValuesSyntax | None
    progress: ProgressClause | None
    span: Span
    is_table: bool = False  # CREATE TABLE


@dataclass(frozen=True, slots=True)
class SplitBranch:
    """One branch of SPLIT: a stream, and the condition of its tuples."""

    name: Name
    where: exp.Expr | None  # None: OTHERWISE


@dataclass(frozen=True, slots=True)
class Split:
    """SPLIT: a stream becomes several, by conditions."""

    source: Name
    branches: tuple[SplitBranch, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP of a stream, table, view or query."""

    kind: str  # STREAM, TABLE, VIEW or QUERY
    name: Name
    if_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class IntoPlaces:
    """Paths of INTO: for the rows of a query that runs at once, for its late tuples, and for its
    rejected rows."""

    rows: Name | None = None
    late: Name | None = None
    rejected: Name | None = None

    @property
    def first(self) -> Name | None:
        """The first path that is given, or None."""
        return self.rows or self.late or self.rejected


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """CREATE QUERY: a query under a name, with the places of its results."""

    name: Name
    query: QuerySyntax
    span: Span
    into: IntoPlaces = IntoPlaces()


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW: a query under a name that others read."""

    name: Name
    query: QuerySyntax
    replaces: bool  # OR REPLACE
    span: Span
    if_not_exists: bool = False
    materialized: bool = False


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """ALTER QUERY: change one setting of a query that runs."""

    name: Name
    setting: Name
    value: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW: list what the catalog holds of one kind."""

    what: str  # STREAMS, TABLES, VIEWS or QUERIES
    span: Span


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE: the columns of a named relation, or of a query."""

    what: Name | QuerySyntax
    span: Span


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query; the flags choose what is explained."""

    query: QuerySyntax
    span: Span
    physical: bool = False  # the physical plan, not the logical one
    schedule: bool = False  # the rules of the scheduler
    dataflow: bool = False  # the dataflow expression of every stream
    conflicts: bool = False  # the conflicts in it
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
