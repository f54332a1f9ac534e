"""`CROSS JOIN UNNEST(a) AS u(item)`, also after a comma, and LEFT JOIN … ON TRUE."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.parsing.parser import Parser
from penstock.language.syntax import JoinChain, Name, Relation, UnnestedRelation


def at_unnest(parser: Parser) -> bool:
    return parser.at("UNNEST") and parser._next.token_type is TokenType.L_PAREN


def unnested(parser: Parser, relation: Relation, kind: str) -> UnnestedRelation:
    """unnest ::= UNNEST '(' expression ')' [WITH ORDINALITY] [[AS] alias ['(' column, … ')']]"""
    start = parser.here()
    parser._advance(2)
    collection = parser.scalar("an ARRAY or MAP")
    parser.close_paren()
    numbered = parser.accept("WITH", "ORDINALITY")
    alias = parser.alias()
    columns: tuple[Name, ...] = ()
    if alias is not None and parser._match(TokenType.L_PAREN):
        columns = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
        parser.close_paren()
    if kind not in ("CROSS", "INNER", "LEFT"):
        parser.refuse(f"UNNEST cannot stand in a {kind} JOIN", hint="CROSS JOIN or LEFT JOIN")
    if kind != "CROSS" and parser.accept("ON"):
        condition = parser.scalar("TRUE")
        if not isinstance(condition, exp.Boolean) or not condition.this:
            parser.refuse("UNNEST is joined ON TRUE", hint="the condition in WHERE")
    return UnnestedRelation(
        relation, collection, alias, columns, kind == "LEFT", numbered, parser.since(start)
    )


def after_comma(parser: Parser, chains: list[JoinChain]) -> None:
    """`FROM s, UNNEST(s.a)`: of the relation before the comma."""
    chains[-1] = chains[-1].with_last(unnested(parser, chains[-1].relations[-1], "CROSS"))
