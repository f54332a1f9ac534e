"""VALUES: rows that are written out in a statement."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span
from penstock.language.parsing.parser import Parser
from penstock.language.syntax.relations import ValuesSyntax


def at_written_rows(parser: Parser) -> bool:
    """Whether VALUES and a row follow, and not a name."""
    return parser.at("VALUES") and parser._next.token_type is TokenType.L_PAREN


def written_rows(parser: Parser) -> ValuesSyntax:
    """rows ::= '(' value {',' value} ')' {',' '(' value {',' value} ')'}"""
    rows: list[tuple[exp.Expr, ...]] = []
    spans: list[Span] = []
    while True:
        start = parser.here()
        parser.open_paren("a row")
        rows.append(parser.list_of(lambda: parser.scalar("a value")))
        parser.close_paren()
        spans.append(parser.since(start))
        another = parser._next.token_type is TokenType.L_PAREN
        if not another or not parser._match(TokenType.COMMA):
            return ValuesSyntax(tuple(rows), tuple(spans))
