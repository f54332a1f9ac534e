"""SELECTs, what stands between them, and what applies to a whole query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from sqlglot import exp

from penstock.errors import Span
from penstock.language.syntax.names import Name, Quantity
from penstock.language.syntax.relations import JoinChain
from penstock.language.syntax.windows import WindowClause


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
