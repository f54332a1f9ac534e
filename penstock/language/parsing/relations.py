"""FROM: streams and queries by name, sub-queries, unions, differences and sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.errors import Span, nearest, shortened
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.tokens import SyntaxAt
from penstock.language.parsing.window_clause import window_clause
from penstock.language.parsing.window_functions import at_window_function, window_function
from penstock.language.parsing.written_rows import at_written_rows, written_rows
from penstock.language.syntax.names import Name
from penstock.language.syntax.relations import (
    ExceptRelation,
    NamedRelation,
    Relation,
    SequenceRelation,
    SubqueryRelation,
    UnionRelation,
    UnnestedRelation,
    ValuesSyntax,
    WrittenRelation,
)
from penstock.language.syntax.windows import WindowClause

_OTHERS = {  # of other dialects, which would be taken for aliases
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
        from penstock.language.parsing.select import united  # it needs relations

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
    """A function in FROM that is none of ours; TABLE (…) holds its name."""
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
    from penstock.language.parsing.select import query  # a query holds relations, and they queries

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
    if parser.word in _OTHERS and parser.next_word == "(":
        word = parser.word
        parser.refuse(f"{word} is not part of the dialect", hint=_OTHERS[word])


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
    """What follows the mode, each once, in any order."""
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
