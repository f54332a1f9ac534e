"""FROM: relations with commas and JOINs between them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.relations import relation
from penstock.language.parsing.unnest import after_comma, at_unnest, lateral_view, unnested
from penstock.language.syntax.relations import (
    ExceptRelation,
    JoinChain,
    JoinSyntax,
    Relation,
    SequenceRelation,
    UnnestedRelation,
)

_KINDS = {
    ("JOIN",): "INNER",
    ("INNER", "JOIN"): "INNER",
    ("CROSS", "JOIN"): "CROSS",
    ("LEFT", "JOIN"): "LEFT",
    ("LEFT", "OUTER", "JOIN"): "LEFT",
    ("RIGHT", "JOIN"): "RIGHT",
    ("RIGHT", "OUTER", "JOIN"): "RIGHT",
    ("FULL", "JOIN"): "FULL",
    ("FULL", "OUTER", "JOIN"): "FULL",
    ("LEFT", "SEMI", "JOIN"): "SEMI",
    ("SEMI", "JOIN"): "SEMI",
    ("LEFT", "ANTI", "JOIN"): "ANTI",
    ("ANTI", "JOIN"): "ANTI",
}
_WORDS = ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
_OTHERS = {  # of other dialects
    ("OUTER",): "LEFT JOIN, RIGHT JOIN or FULL JOIN",
    ("RIGHT", "SEMI"): "LEFT SEMI JOIN, with the inputs exchanged",
    ("RIGHT", "ANTI"): "LEFT ANTI JOIN, with the inputs exchanged",
}


def from_clause(parser: Parser) -> tuple[JoinChain, ...]:
    """from ::= chain {',' chain}

    A comma before WHERE is let pass: the thesis writes it."""
    chains = [_chain(parser)]
    while parser._match(TokenType.COMMA):
        if parser.at("WHERE", "GROUP", "GROUP BY", "WINDOW"):
            break
        if at_unnest(parser):
            after_comma(parser, chains)
        else:
            chains.append(_chain(parser))
    return tuple(chains)


def _chain(parser: Parser) -> JoinChain:
    """chain ::= relation {join}"""
    first = relation(parser)
    if parser.at_as_of() or parser.at("FOR"):
        parser.refuse("AS OF belongs to a JOIN", hint="a JOIN b AS OF a.ts ON …")
    chain = JoinChain(first, ())
    while True:
        start = parser.here()
        view = lateral_view(parser, chain.relations[-1])
        if view is not None:
            chain = chain.with_last(view)
            continue
        natural = parser.accept("NATURAL")
        asof = _asof(parser)
        kind = asof or _kind(parser)
        if kind is None:
            if natural:
                parser.refuse(f"expected JOIN after NATURAL, found {parser.found()}")
            return chain
        if natural:
            chain = replace(chain, joins=(*chain.joins, _natural(parser, kind, start)))
        elif at_unnest(parser):
            chain = chain.with_last(unnested(parser, chain.relations[-1], kind))
        else:
            made = _asof_join(parser, kind, start) if asof else _join(parser, kind, start)
            chain = replace(chain, joins=(*chain.joins, made))


def _asof(parser: Parser) -> str | None:
    """asof-join ::= ASOF [INNER | LEFT [OUTER]] JOIN | LEFT ASOF JOIN"""
    if parser.accept("LEFT", "ASOF", "JOIN"):
        return "LEFT"
    if not parser.at_asof_join() or not parser.accept("ASOF"):
        return None
    kind = _kind(parser)
    if kind not in ("INNER", "LEFT"):
        parser.refuse(
            "an ASOF join keeps tuples of its left side, or none without a partner",
            hint="ASOF JOIN or ASOF LEFT JOIN",
        )
    return kind


def _asof_join(parser: Parser, kind: str, start: Span) -> JoinSyntax:
    """[asof-join] relation [MATCH_CONDITION '(' comparison ')'] [ON condition | USING columns]

    With MATCH_CONDITION it is Snowflake's, which keeps tuples of the left side."""
    joined, matching = relation(parser), None
    if parser.accept("MATCH_CONDITION"):
        parser.open_paren("a comparison of two times")
        matching, kind = parser.scalar("a comparison of two times"), "LEFT"
        parser.close_paren()
    if parser.accept("USING"):
        parser.open_paren("the columns that both sides have")
        using = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
        parser.close_paren()
        span = parser.since(start)
        return JoinSyntax(kind, joined, None, None, span, using, asof=True, matching=matching)
    condition = None
    if parser.at("ON") or matching is None:
        if not parser.at("ON"):
            parser.refuse(f"expected ON or USING, found {parser.found()}")
        parser.expect("ON")
        condition = parser.scalar("a join condition")
    span = parser.since(start)
    return JoinSyntax(kind, joined, condition, None, span, asof=True, matching=matching)


def _join(parser: Parser, kind: str, start: Span) -> JoinSyntax:
    """join ::= NATURAL [kind] JOIN relation
    | CROSS JOIN (relation | unnest) | LEFT JOIN unnest ON TRUE
    | [kind] JOIN relation [as-of] (ON condition | USING '(' column {',' column} ')')
    kind ::= INNER | (LEFT | RIGHT | FULL) [OUTER] | [LEFT] SEMI | [LEFT] ANTI"""
    joined, as_of = _relation_as_of(parser)
    if kind == "CROSS":
        if parser.at("ON"):
            parser.refuse("a CROSS JOIN has no condition", hint="JOIN … ON")
        return JoinSyntax(kind, joined, None, as_of, parser.since(start))
    if parser.accept("USING"):
        parser.open_paren("the columns that both sides have")
        using = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
        parser.close_paren()
        return JoinSyntax(kind, joined, None, as_of, parser.since(start), using)
    if not parser.at("ON"):
        parser.refuse(f"expected ON or USING, found {parser.found()}")
    parser.expect("ON")
    condition = parser.scalar("a join condition")
    return JoinSyntax(kind, joined, condition, as_of, parser.since(start))


def _natural(parser: Parser, kind: str, start: Span) -> JoinSyntax:
    """NATURAL [kind] JOIN relation: by all columns that both sides have."""
    if kind == "CROSS":
        parser.refuse("a CROSS JOIN has no condition", hint="NATURAL JOIN")
    joined = relation(parser)
    if parser.at("ON", "USING"):
        parser.refuse(f"a NATURAL JOIN has no {parser.word}", hint=f"JOIN … {parser.word}")
    return JoinSyntax(kind, joined, None, None, parser.since(start), natural=True)


def _kind(parser: Parser) -> str | None:
    for words, kind in _KINDS.items():
        if parser.accept(*words):
            return kind
    for words, advice in _OTHERS.items():
        if (parser.word, parser.next_word)[: len(words)] == words:
            parser.refuse(f"{' '.join(words)} joins are not part of the dialect", hint=advice)
    if parser.at(*_WORDS):
        word = parser.word
        parser._advance()
        parser.refuse(f"expected JOIN after {word}, found {parser.found()}")
    return None


def _relation_as_of(parser: Parser) -> tuple[Relation, exp.Expr | None]:
    """as-of ::= AS OF time | FOR SYSTEM_TIME AS OF time [[AS] alias]"""
    found = relation(parser)
    standard = parser.accept("FOR", "SYSTEM_TIME")
    if not standard and not parser.at_as_of():
        return found, None
    parser.expect("AS", "OF")
    time = parser.scalar("the time at which it is looked up")
    alias = parser.alias()
    if alias is not None:
        nameless = (SequenceRelation, ExceptRelation, UnnestedRelation)
        if isinstance(found, nameless) or found.alias is not None:
            parser.refuse("the relation has two names")
        found = replace(found, alias=alias)
    return found, time
