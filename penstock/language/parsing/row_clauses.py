"""The clauses about rows beside each other: WINDOW w AS (…), QUALIFY, ORDER BY, LIMIT n BY …"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from penstock.language.parsing.parser import Parser
from penstock.language.parsing.tokens import SyntaxAt
from penstock.language.syntax.queries import LimitClause, OrderItem


class RowClauses(NamedTuple):
    """What stands behind HAVING."""

    windows: tuple[exp.Window, ...]
    qualify: exp.Expr | None
    order_by: tuple[OrderItem, ...]
    limit: LimitClause | None


def row_clauses(parser: Parser) -> RowClauses:
    """[WINDOW name AS '(' … ')' {',' …}] [QUALIFY condition] [ORDER BY …]
    [LIMIT n [OFFSET m] [BY key, …]]"""
    windows = _named_windows(parser)
    qualify = parser.scalar("a condition") if parser.accept("QUALIFY") else None
    windows = windows or _named_windows(parser)
    order_by = _order_by(parser)
    limit = _limit(parser)
    return RowClauses(windows, qualify, order_by, limit)


def at_named_window(parser: Parser) -> bool:
    """Whether `WINDOW w AS (…)` follows, and not `WINDOW 10 MINUTES`."""
    return parser.at("WINDOW") and bool(parser.next_word) and parser.word_after(2) == "AS"


def _named_windows(parser: Parser) -> tuple[exp.Window, ...]:
    if not at_named_window(parser):
        return ()
    parser.expect("WINDOW")
    return parser.list_of(lambda: _named_window(parser))


def _named_window(parser: Parser) -> exp.Window:
    made = parser._parse_named_window()
    if not isinstance(made, exp.Window):
        parser.refuse(f"expected a window, found {parser.found()}", hint="w AS (PARTITION BY …)")
    return made


def _order_by(parser: Parser) -> tuple[OrderItem, ...]:
    """ORDER BY expression [ASC | DESC] [NULLS (FIRST | LAST)] {',' …}"""
    if not parser.accept("ORDER BY"):
        return ()
    return parser.list_of(lambda: _order_item(parser))


def _order_item(parser: Parser) -> OrderItem:
    start = parser.here()
    found = parser.scalar("a column to order by")
    descending = parser.accept("DESC")
    if not descending:
        parser.accept("ASC")
    nulls_first = descending
    if parser.accept("NULLS"):
        nulls_first = parser.accept("FIRST")
        if not nulls_first:
            parser.expect("LAST")
    return OrderItem(found, descending, parser.since(start), nulls_first)


def _limit(parser: Parser) -> LimitClause | None:
    """limit ::= LIMIT n [OFFSET m] [BY key {',' key}] [OFFSET m]
    | OFFSET m [ROW | ROWS] [fetch] [BY …] | fetch [BY …]
    fetch ::= FETCH (FIRST | NEXT) n (ROW | ROWS) ONLY"""
    start = parser.here()
    if not parser.at("LIMIT", "OFFSET", "FETCH"):
        return None
    rows = _count(parser, "LIMIT", least=1) if parser.accept("LIMIT") else None
    offset = _offset(parser)
    if rows is None:
        rows = _fetch(parser)
    by: tuple[exp.Expr, ...] = ()
    if parser.accept("BY"):
        by = parser.list_of(lambda: parser.scalar("a key"))
    if offset is None:
        offset = _offset(parser)
    if rows is None and not offset:
        raise SyntaxAt("OFFSET 0 leaves all rows", parser.since(start), "LIMIT n OFFSET 0")
    return LimitClause(rows, by, parser.since(start), offset or 0)


def _offset(parser: Parser) -> int | None:
    if not parser.accept("OFFSET"):
        return None
    return _count(parser, "OFFSET", least=0)


def _fetch(parser: Parser) -> int | None:
    if not parser.accept("FETCH"):
        return None
    if not (parser.accept("FIRST") or parser.accept("NEXT")):
        parser.refuse(f"expected FIRST or NEXT after FETCH, found {parser.found()}")
    rows = 1 if parser.at("ROW", "ROWS") else _count(parser, "FETCH", least=1)
    _ = parser.accept("ROWS") or parser.accept("ROW")
    parser.expect("ONLY")
    return rows


def _count(parser: Parser, clause: str, least: int) -> int:
    quantity = parser.quantity()
    rows = int(quantity.amount)
    if rows != quantity.amount or rows < least or not (quantity.unit is None or quantity.is_rows):
        raise SyntaxAt(f"{clause} is {quantity}", quantity.span, f"a whole number from {least} on")
    return rows
