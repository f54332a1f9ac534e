"""ARRAYs, STRUCTs and MAPs that are written out, and the places of their parts: `[1, 2]`,
`{'a': 1}`, `MAP['k', 1]`, `a[1]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

if TYPE_CHECKING:
    from penstock.language.parsing.parser import Parser

# What brackets begin with that hold a window.
WINDOW_PARTS = (
    *("RANGE", "SLIDE", "WA", "WATTR", "RATTR", "SATTR", "PA", "PATTR", "ORIGIN", "SESSION"),
    "MAX",
)
_MAP = "MAP['key', 1], or CAST(NULL AS MAP<STRING, INT>)"
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)


def at_subscript(parser: Parser, this: exp.Expr | None) -> bool:
    """Not a window, not even a misspelt one: a word and a number behind it, or nothing."""
    if parser._curr.token_type is not TokenType.L_BRACKET or parser.next_word in WINDOW_PARTS:
        return False
    if parser._next.token_type is TokenType.R_BRACKET:
        return this is None or is_called(this, "ARRAY") or is_called(this, "MAP")
    after = parser._tokens[parser._index + 2 : parser._index + 3]
    word = parser.next_word[:1].isalpha()
    return not (word and after and after[0].token_type in _CONSTANTS)


def subscript(parser: Parser, this: exp.Expr | None) -> exp.Expr:
    """`a[1]`, or an ARRAY: `ARRAY[1, 2]` or `[1, 2]`."""
    start = parser._curr.start
    parser._advance()
    is_array = this is None or is_called(this, "ARRAY")
    at_end = parser._curr.token_type is TokenType.R_BRACKET
    items = [] if at_end else list(parser.list_of(parser.scalar))
    if not parser._match(TokenType.R_BRACKET):
        parser.refuse(f"expected ], found {parser.found()}")
    made: exp.Expr
    if is_called(this, "MAP") and not items:
        parser.refuse("an empty MAP is of no type", hint=_MAP)
    if is_called(this, "MAP") and len(items) % 2 == 0:
        made = parser.expression(exp.Anonymous(this="map", expressions=items))
    elif is_array:
        made = parser.expression(exp.Array(expressions=items))
    elif len(items) != 1:
        parser.refuse("an element has one place or key", hint="a[1] or m['key']")
    else:
        made = parser.expression(exp.Bracket(this=this, expressions=items))
    made.meta["start"] = start if this is None else this.meta.get("start", start)
    return made


def written_map(parser: Parser, word: exp.Expr) -> exp.Expr:
    """`MAP {'a': 1}`, as DuckDB writes it."""
    if parser._next.token_type is TokenType.R_BRACE:
        parser.refuse("an empty MAP is of no type", hint=_MAP)
    parser._advance()
    pairs = parser.list_of(lambda: (parser.scalar("a key"), _behind_colon(parser)))
    _close_brace(parser)
    items = [each for pair in pairs for each in pair]
    made: exp.Expr = parser.expression(exp.Anonymous(this="map", expressions=items))
    made.meta["start"] = word.meta.get("start", made.meta["start"])
    return made


def written_struct(parser: Parser) -> exp.Expr:
    """`{'a': 1, b: 2}`"""
    start = parser._curr.start
    parser._advance()
    empty = parser._curr.token_type is TokenType.R_BRACE
    pairs = () if empty else parser.list_of(lambda: _pair(parser))
    _close_brace(parser)
    made: exp.Expr = parser.expression(exp.Struct(expressions=list(pairs)))
    made.meta["start"] = start
    return made


def _pair(parser: Parser) -> exp.Expr:
    token = parser._curr
    if token.token_type is TokenType.STRING:
        parser._advance()
        name = token.text
    else:
        name = parser.name("the name of a field", allow_reserved=True).text
    pair = exp.PropertyEQ(this=exp.to_identifier(name), expression=_behind_colon(parser))
    made: exp.Expr = parser.expression(pair)
    made.meta["start"] = token.start
    return made


def _behind_colon(parser: Parser) -> exp.Expr:
    if not parser._match(TokenType.COLON):
        parser.refuse(f"expected :, found {parser.found()}", hint="{'a': 1}")
    return parser.scalar()


def _close_brace(parser: Parser) -> None:
    if not parser._match(TokenType.R_BRACE):
        parser.refuse(f"expected }}, found {parser.found()}")


def is_called(this: exp.Expr | None, name: str) -> bool:
    return isinstance(this, exp.Column) and not this.table and this.name.upper() == name


def with_struct_types(tokens: list[Token]) -> list[Token]:
    """`ROW<a INT>` is another way to write STRUCT<a INT>; but `row < a` compares a column."""
    made = list(tokens)
    types = {*SqlglotParser.TYPE_TOKENS, TokenType.ROW}
    for place, token in enumerate(tokens[:-3]):
        opens = tokens[place + 1].token_type is TokenType.LT
        if opens and token.text.upper() == "ROW" and tokens[place + 3].token_type in types:
            ends = (token.line, token.col, token.start, token.end)
            made[place] = Token(TokenType.STRUCT, "STRUCT", *ends)
    return made
