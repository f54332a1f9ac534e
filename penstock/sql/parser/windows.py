"""Parses windows: the brackets `[RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts]`, parts in any order, and
window functions in FROM, as Flink and RisingWave write them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span, nearest
from penstock.sql.parser.parser import WINDOW_PARTS, Parser
from penstock.sql.parser.tokens import SyntaxAt
from penstock.sql.syntax import (
    Attribute,
    NamedRelation,
    SubqueryRelation,
    WindowClause,
    WindowedRelation,
)


def window_clause(parser: Parser) -> WindowClause | None:
    """window ::= '[' part {',' part} ']'"""
    start = parser.here()
    if not parser._match(TokenType.L_BRACKET):
        return None
    parts: dict[str, Any] = {}
    while True:
        at, word = parser.here(), parser.word
        for key, value in _part(parser).items():
            if key in parts:
                raise SyntaxAt(f"the window says {word} twice", parser.since(at))
            parts[key] = value
        if "range" in parts and "range_all" in parts:
            raise SyntaxAt(f"the window says {word} twice", parser.since(at))
        if not parser._match(TokenType.COMMA):
            break
    if not parser._match(TokenType.R_BRACKET):
        hint = f"a comma before {parser.word}" if parser.at(*WINDOW_PARTS) else None
        parser.refuse(f"expected , or ] in the window, found {parser.found()}", hint=hint)
    return WindowClause(parser.since(start), **parts)


def _part(parser: Parser) -> dict[str, Any]:
    """part ::= RANGE … | SLIDE … | WA … | RATTR … | SATTR … | PA … | ORIGIN …
    | SESSION GAP … | MAX …"""
    word = parser.word
    if word not in WINDOW_PARTS:
        close = nearest(word or "?", WINDOW_PARTS)
        parser.refuse(
            f"expected a part of a window ({', '.join(WINDOW_PARTS)}), found {parser.found()}",
            hint=close[0] if close else "[RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts]",
        )
    parser._advance()
    match word:
        case "RANGE":
            if parser.accept("ALL"):
                return {"range_all": True}
            tumbling = parser.accept("TUMBLING")
            found = {"range": parser.quantity()}
            return {**found, "tumbling": True} if tumbling else found
        case "SLIDE":
            return {"slide": parser.quantity()}
        case "WA" | "WATTR":
            return {"attribute": attribute(parser)}
        case "RATTR":
            return {"range_attribute": attribute(parser)}
        case "SATTR":
            return {"slide_attribute": attribute(parser)}
        case "SESSION":
            if not parser.accept("GAP"):
                parser.refuse(
                    f"expected GAP after SESSION, found {parser.found()}",
                    hint="SESSION GAP 5 MINUTES",
                )
            return {"gap": parser.quantity()}
        case "MAX":
            return {"longest": parser.quantity()}
        case "ORIGIN":
            return {"origin": parser.scalar("where windows are counted from")}
        case _:
            return {"partition": _partition(parser)}


def _partition(parser: Parser) -> tuple[exp.Expr, ...]:
    """PA srcIP, or PA (srcIP, destIP)"""
    if not parser._match(TokenType.L_PAREN):
        return (parser.scalar("a column to partition by"),)
    columns = parser.list_of(lambda: parser.scalar("a column to partition by"))
    parser.close_paren()
    return columns


def attribute(parser: Parser) -> Attribute:
    """attribute ::= row-num | rank '(' column ')' | column"""
    start = parser.here()
    if parser.accept("ROW", "-", "NUM") or parser.accept("SEQ", "-", "NUM"):
        return Attribute(None, False, parser.since(start))
    if parser.at("ROW_NUM", "ROWNUM", "SEQ_NUM"):
        parser._advance()
        return Attribute(None, False, parser.since(start))
    if parser.at("RANK") and parser._next.token_type is TokenType.L_PAREN:
        parser._advance(2)
        column = parser.scalar("the column to rank by")
        parser.close_paren()
        return Attribute(column, True, parser.since(start))
    return Attribute(parser.scalar("a windowing attribute"), False, parser.since(start))


# Window functions in FROM, as Flink and RisingWave write them.

_KINDS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_LENGTHS = {  # in their order, as they are called where they have names
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}


def at_window_function(parser: Parser) -> bool:
    if parser.at("TABLE"):
        return parser._next.token_type is TokenType.L_PAREN and parser.word_after(2) in _KINDS
    return parser.at(*_KINDS, "WINDOWED") and parser._next.token_type is TokenType.L_PAREN


def window_function(parser: Parser) -> WindowedRelation:
    """function ::= TABLE '(' call ')' | call
    call ::= (TUMBLE | HOP | CUMULATE | SESSION) '(' [TABLE] name [PARTITION BY key {',' key}] ','
    (DESCRIPTOR '(' time ')' | time) {',' length} ')', all behind their names and => if one likes
    | WINDOWED '(' (name | '(' query ')') window ')'"""
    from penstock.sql.parser.relations import in_parentheses

    start = parser.here()
    if parser.accept("WINDOWED"):
        return _windowed(parser, start)
    wrapped = parser.accept("TABLE")
    if wrapped:
        parser.open_paren("a window function")
    kind = parser.word
    parser._advance()
    parser.open_paren(f"what {kind} takes")
    relation: NamedRelation | SubqueryRelation
    _name(parser, "DATA")
    if parser.accept("TABLE") or not parser._match(TokenType.L_PAREN):
        at = parser.here()
        relation = NamedRelation(parser.name("a stream or query"), None, None, parser.since(at))
    else:
        found = in_parentheses(parser)
        if not isinstance(found, NamedRelation | SubqueryRelation):
            parser.refuse("a window function takes a stream, a query or a sub-query")
        if found.window is not None:
            raise SyntaxAt(
                f"what {kind} takes has no window of its own", found.window.span, "leave it out"
            )
        relation = found
    partition: tuple[exp.Expr, ...] = ()
    if kind == "SESSION" and parser._match(TokenType.PARTITION_BY):
        partition = _keys(parser)
    else:
        _comma(parser, "the time")
    _name(parser, "TIMECOL")
    described = parser.at("DESCRIPTOR")
    time = _time(parser)
    lengths = _lengths(parser, _LENGTHS[kind])
    parser.close_paren()
    if wrapped:
        parser.close_paren()
    alias = parser.alias()
    span = parser.since(start)
    return WindowedRelation(kind, relation, time, lengths, alias, None, span, partition, described)


def _windowed(parser: Parser, start: Span) -> WindowedRelation:
    """WINDOWED '(' relation window ')', with a window in Penstock's brackets"""
    from penstock.sql.parser.relations import operand

    parser.open_paren("a stream and its window")
    relation = operand(parser)
    if not isinstance(relation, NamedRelation | SubqueryRelation) or relation.window is None:
        parser.refuse(
            "WINDOWED takes a stream, a query or a sub-query, and its window",
            hint="WINDOWED(s [RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts])",
        )
    attribute = relation.window.attribute
    if attribute is None or attribute.column is None:
        parser.refuse("the window of WINDOWED says which column it is over", hint="WA ts")
    parser.close_paren()
    alias = parser.alias()
    return WindowedRelation(
        "WINDOWED", relation, attribute.column, (), alias, None, parser.since(start)
    )


def _keys(parser: Parser) -> tuple[exp.Expr, ...]:
    """Parse keys with commas between them; the last comma is before DESCRIPTOR."""
    keys = [parser.scalar("a column")]
    while True:
        _comma(parser, "the time")
        if parser.at("DESCRIPTOR", "TIMECOL"):
            return tuple(keys)
        keys.append(parser.scalar("a column"))


def _name(parser: Parser, *names: str) -> str | None:
    """Parse the name of an argument, if it has one."""
    if parser._next.token_type is not TokenType.FARROW:
        return None
    if not parser.at(*names):
        parser.refuse(f"expected {' or '.join(names)} before =>, found {parser.found()}")
    name = parser.word
    parser._advance(2)
    return name


def _lengths(parser: Parser, names: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    """Parse lengths in the order of their names, which are optional."""
    found: dict[str, exp.Expr] = {}
    others: list[exp.Expr] = []
    while parser._match(TokenType.COMMA):
        name = _name(parser, *names)
        length = parser.scalar("a length of time")
        if name is None:
            others.append(length)
        elif name in found:
            parser.refuse(f"{name} is said twice")
        else:
            found[name] = length
    return tuple(found[each] for each in names if each in found) + tuple(others)


def _time(parser: Parser) -> exp.Expr:
    if not parser.accept("DESCRIPTOR"):
        return parser.scalar("the time")
    parser.open_paren("the time")
    time = parser.scalar("the time")
    parser.close_paren()
    return time


def _comma(parser: Parser, what: str) -> None:
    if not parser._match(TokenType.COMMA):
        parser.refuse(f"expected , before {what}, found {parser.found()}")
