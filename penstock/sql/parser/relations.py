"""Parses FROM: streams and queries by name, sub-queries, VALUES, unions, differences, sequences,
UNNEST, and joins between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span, nearest, shortened
from penstock.sql.parser.parser import Parser
from penstock.sql.parser.tokens import SyntaxAt
from penstock.sql.parser.windows import at_window_function, window_clause, window_function
from penstock.sql.syntax import (
    ExceptRelation,
    JoinChain,
    JoinSyntax,
    Name,
    NamedRelation,
    Relation,
    SequenceRelation,
    SubqueryRelation,
    UnionRelation,
    UnnestedRelation,
    ValuesSyntax,
    WindowClause,
    WrittenRelation,
)


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


# Relations: streams and queries by name, sub-queries, unions, differences and sequences.

_OTHER_RELATIONS = {  # of other dialects, which would be taken for aliases
    "MATCH_RECOGNIZE": "SEQUENCE (a THEN b MODE RECENT), for two that follow each other",
    "PIVOT": "sum(x) FILTER (WHERE k = 'a') AS a, for every value of k",
    "UNPIVOT": "UNNEST of an ARRAY or a MAP of the columns",
    "TABLESAMPLE": "a condition, such as WHERE id % 100 = 0",
}


def relation(parser: Parser) -> Relation:
    """relation ::= union [EXCEPT ON '(' column {',' column} ')' union]"""
    start = parser.here()
    left = _union(parser)
    if not parser.accept("EXCEPT", "ON"):
        return left
    parser.open_paren("the columns to compare")
    columns = parser.list_of(lambda: parser.name("a column"))
    parser.close_paren()
    right = _union(parser)
    return ExceptRelation(left, right, columns, parser.since(start))


def _union(parser: Parser) -> Relation:
    """union ::= operand {UNION [ALL] operand}; the last alias and window are the union's.

    UNION between queries in parentheses alone is what it is between SELECTs: every row once.
    """
    start = parser.here()
    operands, operations = [operand(parser)], list[Name]()
    while parser.at("UNION", "∪") and not _before_select(parser):
        if isinstance(last := operands[-1], NamedRelation | SubqueryRelation | UnionRelation) and (
            last.alias or last.window
        ):
            parser.refuse("an alias or window before UNION", hint="name the union as a whole")
        here, word = parser.here(), parser.word
        parser._advance()
        every = parser.accept("ALL") or word == "∪"
        operands.append(operand(parser))
        operations.append(Name("UNION ALL" if every else "UNION", here))
    last = operands[-1]
    if len(operands) == 1 or isinstance(last, SequenceRelation | ExceptRelation | UnnestedRelation):
        if len(operands) > 1:
            parser.refuse("a sequence or difference cannot be united as it stands")
        return last
    operands[-1] = replace(last, alias=None, window=None)
    asked = [each for each in operands if isinstance(each, SubqueryRelation)]
    if len(asked) == len(operands) and any(each.text == "UNION" for each in operations):
        from penstock.sql.parser.select import united

        span = parser.since(start)
        return SubqueryRelation(united(asked, operations, span), last.alias, last.window, span)
    return UnionRelation(tuple(operands), last.alias, last.window, parser.since(start))


def _before_select(parser: Parser) -> bool:
    """Whether the UNION at hand joins whole queries, as UNION [ALL] SELECT does."""
    after = parser.word_after(2) if parser.next_word == "ALL" else parser.next_word
    return after in ("SELECT", "DISTINCT")


def operand(parser: Parser) -> Relation:
    """operand ::= (name | '(' query ')' | '(' relation ')' | sequence) [[AS] alias] [window]"""
    start = parser.here()
    if parser.at("SEQUENCE") and parser._next.token_type is TokenType.L_PAREN:
        return _sequence(parser)
    if at_window_function(parser):
        return window_function(parser)
    if parser.at("LATERAL"):
        parser.refuse(
            "a sub-query cannot look at the relations beside it",
            hint="LIMIT 3 BY key for the first rows of every key; LATERAL UNNEST(a) for items",
        )
    if parser._match(TokenType.L_PAREN):
        return in_parentheses(parser)
    if at_written_rows(parser):
        parser._advance()
        return _named_rows(parser, written_rows(parser), start)
    reserved = parser.at_reserved_alone()  # refused where it is known what there is
    name = parser.name("a stream or query", allow_reserved=reserved)
    while parser._match(TokenType.DOT):  # of Spark: a schema, and a catalog before it
        last = parser.name("a table")
        name = Name(f"{name.text}.{last.text}", parser.since(start))
    _refuse_call(parser, name)
    alias, window = _alias_and_window(parser)
    if alias is not None and parser._curr.token_type is TokenType.L_PAREN:
        parser.refuse(
            "the columns of a stream have their names",
            hint=f"(SELECT x AS a, … FROM {name.text}) AS {alias.text}",
        )
    return NamedRelation(name, alias, window, parser.since(start), reserved)


_TABLE_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "WINDOWED", "SEQUENCE", "UNNEST")
_INSTEAD = {  # of functions of others; in small letters, for these are no words of the language
    **dict.fromkeys(
        ("read_csv", "read_csv_auto", "read_parquet", "read_json", "read_json_auto", "files"),
        "CREATE STREAM s (…) FROM FILES 'x.csv'",
    ),
    **dict.fromkeys(("generate_series", "range"), "(VALUES (1), (2), (3)) AS t (n)"),
    **dict.fromkeys(("explode", "flatten", "json_each"), "s CROSS JOIN UNNEST(s.items) AS u(item)"),
}


def _refuse_call(parser: Parser, name: Name) -> None:
    """Refuse a function in FROM that does not exist; TABLE (…) holds its name."""
    if parser._curr.token_type is not TokenType.L_PAREN:
        return
    if name.text.upper() == "TABLE":
        parser._advance()
        name = Name(parser._curr.text, parser.here())
        if parser.next_word != "(":
            parser.refuse(
                f"expected a function in TABLE(…), found {parser.found()}",
                hint=f"FROM {parser._curr.text}" if parser.word else None,
            )
    known = _INSTEAD.get(name.text.lower())
    close = nearest(name.text, _TABLE_FUNCTIONS)
    raise SyntaxAt(
        f"there is no function called {shortened(name.text, 80)!r} in FROM, only"
        f" {', '.join(_TABLE_FUNCTIONS)}",
        name.span,
        known or (close[0] if close else None),
    )


def in_parentheses(parser: Parser) -> Relation:
    from penstock.sql.parser.select import query

    start = parser.here()
    if parser.at("SELECT", "WITH"):
        inner = query(parser)
        parser.close_paren()
        alias, window = _alias_and_window(parser)
        columns = () if alias is None else column_names(parser)
        window = window or window_clause(parser)
        return SubqueryRelation(inner, alias, window, parser.since(start), columns)
    if at_written_rows(parser):
        parser._advance()
        rows = written_rows(parser)
        parser.close_paren()
        return _named_rows(parser, rows, start)
    found = relation(parser)
    parser.close_paren()
    alias, window = _alias_and_window(parser)
    if alias is None and window is None:
        return found
    if isinstance(found, SequenceRelation | ExceptRelation | UnnestedRelation):
        parser.refuse("an alias or window after a sequence or difference")
    return replace(found, alias=alias or found.alias, window=window or found.window)


def _named_rows(parser: Parser, rows: ValuesSyntax, start: Span) -> WrittenRelation:
    alias, window = _alias_and_window(parser)
    columns = () if alias is None else column_names(parser)
    window = window or window_clause(parser)
    return WrittenRelation(rows, alias, window, parser.since(start), columns)


def column_names(parser: Parser) -> tuple[Name, ...]:
    """['(' column {',' column} ')'], behind the name of a relation"""
    if parser._curr.token_type is not TokenType.L_PAREN:
        return ()
    parser.open_paren("the names of the columns")
    columns = parser.list_of(lambda: parser.name("a column", allow_reserved=True))
    parser.close_paren()
    return columns


def _refuse_others(parser: Parser) -> None:
    if parser.word in _OTHER_RELATIONS and parser.next_word == "(":
        word = parser.word
        parser.refuse(f"{word} is not part of the dialect", hint=_OTHER_RELATIONS[word])


def _alias_and_window(parser: Parser) -> tuple[Name | None, WindowClause | None]:
    _refuse_others(parser)
    window = window_clause(parser)
    alias = parser.alias()
    return alias, window or window_clause(parser)


def _sequence(parser: Parser) -> SequenceRelation:
    """sequence ::= SEQUENCE '(' operand THEN operand MODE (RECENT | CHRONICLE)
    {ON condition | WITHIN length | KEEP (FIRST | SECOND | BOTH)} ')'"""
    start = parser.here()
    parser._advance(2)
    first = operand(parser)
    parser.expect("THEN")
    second = operand(parser)
    if parser.at("THEN"):
        parser.refuse("a sequence has two steps", hint="put the first two in a sub-query")
    parser.expect("MODE")
    mode = parser.word
    if mode not in ("RECENT", "CHRONICLE"):
        parser.refuse(f"expected RECENT or CHRONICLE, found {parser.found()}")
    parser._advance()
    parts = _parts_of_sequence(parser)
    parser.close_paren()
    return SequenceRelation(
        first,
        second,
        mode,
        parts.get("ON"),
        parts.get("WITHIN"),
        parts.get("KEEP"),
        parser.since(start),
    )


def _parts_of_sequence(parser: Parser) -> dict[str, Any]:
    """Parse ON, WITHIN and KEEP behind the mode of a sequence, each at most once, in any order."""
    parts: dict[str, Any] = {}
    while parser.at("ON", "WITHIN", "KEEP"):
        word = parser.word
        if word in parts:
            parser.refuse(f"the sequence says {word} twice")
        parser._advance()
        match word:
            case "ON":
                parts[word] = parser.scalar("a condition")
            case "WITHIN":
                parts[word] = parser.quantity()
            case _:
                if not parser.at("FIRST", "SECOND", "BOTH"):
                    parser.refuse(f"expected FIRST, SECOND or BOTH, found {parser.found()}")
                parts[word] = Name(parser.word, parser.here())
                parser._advance()
    return parts


# `CROSS JOIN UNNEST(a) AS u(item)`, also after a comma, and LEFT JOIN … ON TRUE; and as Spark and
# Hive write it, `LATERAL VIEW explode(a) u AS item`.

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


# FROM: chains of relations, with commas and JOINs between them.

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
_OTHER_JOINS = {  # of other dialects
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
    for words, advice in _OTHER_JOINS.items():
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
