"""The brackets of a window: `[RANGE 10 MINUTES, SLIDE 1 MINUTE, WA ts]`, parts in any order."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import nearest
from penstock.language.parsing.collections import WINDOW_PARTS
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.tokens import SyntaxAt
from penstock.language.syntax.windows import Attribute, WindowClause


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
