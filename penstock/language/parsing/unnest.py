"""`CROSS JOIN UNNEST(a) AS u(item)`, also after a comma, and LEFT JOIN … ON TRUE; and as Spark and
Hive write it, `LATERAL VIEW explode(a) u AS item`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span
from penstock.language.parsing.parser import Parser
from penstock.language.syntax.names import Name
from penstock.language.syntax.relations import JoinChain, Relation, UnnestedRelation

GENERATORS = ("UNNEST", "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER")


def at_unnest(parser: Parser) -> bool:
    ahead = 1 if parser.at("LATERAL") else 0
    token = parser._tokens[parser._index + ahead + 1 : parser._index + ahead + 2]
    called = bool(token) and token[0].token_type is TokenType.L_PAREN
    return called and parser.word_after(ahead) in GENERATORS


def unnested(parser: Parser, relation: Relation, kind: str) -> UnnestedRelation:
    """unnest ::= [LATERAL] generator '(' expression ')' [WITH ORDINALITY]
    [[AS] alias ['(' column, … ')']]"""
    start = parser.here()
    parser.accept("LATERAL")
    made = _generated(parser, relation, start)
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
    return replace(
        made,
        alias=alias,
        columns=columns,
        outer=made.outer or kind == "LEFT",
        numbered=made.numbered or numbered,
        span=parser.since(start),
    )


def after_comma(parser: Parser, chains: list[JoinChain]) -> None:
    """`FROM s, UNNEST(s.a)`: of the relation before the comma."""
    chains[-1] = chains[-1].with_last(unnested(parser, chains[-1].relations[-1], "CROSS"))


def lateral_view(parser: Parser, relation: Relation) -> UnnestedRelation | None:
    """view ::= LATERAL VIEW [OUTER] generator '(' expression ')' [alias]
    [AS column {',' column}]"""
    start = parser.here()
    if not parser.accept("LATERAL", "VIEW"):
        return None
    outer = parser.accept("OUTER")
    if parser.word not in GENERATORS:
        expected = ", ".join(GENERATORS[1:]).lower()
        parser.refuse(f"expected one of {expected}, found {parser.found()}")
    made = _generated(parser, relation, start)
    alias = None
    if parser.word and not parser.at_reserved():
        alias = parser.name("a name")
    columns: tuple[Name, ...] = ()
    if parser.accept("AS"):
        columns = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
    span = parser.since(start)
    return replace(made, alias=alias, columns=columns, outer=outer or made.outer, span=span)


def _generated(parser: Parser, relation: Relation, start: Span) -> UnnestedRelation:
    word = parser.word
    parser._advance()
    parser.open_paren("an ARRAY or MAP")
    collection = parser.scalar("an ARRAY or MAP")
    parser.close_paren()
    outer, numbered = word.endswith("_OUTER"), word.startswith("POS")
    called = word if word == "UNNEST" else word.lower()
    span = parser.since(start)
    return UnnestedRelation(relation, collection, None, (), outer, numbered, span, called)
