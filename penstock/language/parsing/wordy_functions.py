"""Functions with words between their arguments, as in standard SQL: TRIM, OVERLAY, POSITION
and SUBSTRING, FLOOR of times, as Flink has it, and CASE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from penstock.language.parsing.parser import Parser


_SIDES = {"BOTH": "btrim", "LEADING": "trim_leading", "TRAILING": "trim_trailing"}


def _trim(parser: Parser) -> exp.Expr:
    """[BOTH | LEADING | TRAILING] [characters] FROM text, or text"""
    is_column = parser._next.token_type in (TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT)
    side = ""
    if not is_column:
        side = next((word for word in _SIDES if parser.accept(word)), "")
    first = None if parser.at("FROM") else parser.scalar("a text")
    if side or parser.at("FROM"):
        parser.expect("FROM")
        text = parser.scalar("a text")
        characters = first if first is not None else exp.Literal.string(" ")
        return exp.Anonymous(this=_SIDES[side or "BOTH"], expressions=[text, characters])
    assert first is not None
    others = []
    while parser._match(TokenType.COMMA):
        others.append(parser.scalar("a text"))
    return exp.Anonymous(this="trim", expressions=[first, *others])


def _overlay(parser: Parser) -> exp.Expr:
    """text PLACING other FROM place [FOR length], or with commas"""
    given = [parser.scalar("a text")]
    if parser.accept("PLACING"):
        given.append(parser.scalar("a text"))
        parser.expect("FROM")
        given.append(parser.scalar("a place"))
        if parser.accept("FOR"):
            given.append(parser.scalar("a length"))
    while parser._match(TokenType.COMMA):
        given.append(parser.scalar("a value"))
    return exp.Anonymous(this="overlay", expressions=given)


def _position(parser: Parser) -> exp.Expr:
    """part IN text; what has a comma is refused later"""
    given = parser._parse_csv(parser._parse_bitwise)
    if parser._match(TokenType.IN):
        return exp.StrPosition(this=parser._parse_bitwise(), substr=given[0])
    return exp.Anonymous(this="position", expressions=given)


def _floor(parser: Parser) -> exp.Expr:
    """number, or time TO unit.  It is Flink's, so weeks begin on Sundays."""
    if parser._curr.token_type is TokenType.R_PAREN:
        return exp.Anonymous(this="floor", expressions=[])
    given = [parser.scalar("a number")]
    if parser.accept("TO"):
        unit = parser.name("a unit", allow_reserved=True)
        made = exp.Literal.string(unit.text.lower())
        made.meta.update(start=unit.span.start, end=unit.span.end - 1, sql=parser.sql)
        if unit.text.upper() not in ("WEEK", "WEEKS"):
            return exp.Anonymous(this="date_trunc", expressions=[made, *given])
        day = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY"))
        monday = exp.Add(this=exp.Paren(this=given[0]), expression=day)
        week = exp.Anonymous(this="date_trunc", expressions=[made, monday])
        return exp.Paren(this=exp.Sub(this=week, expression=day.copy()))
    while parser._match(TokenType.COMMA):
        given.append(parser.scalar("a value"))
    return exp.Anonymous(this="floor", expressions=given)


def _substring(parser: Parser) -> exp.Expr:
    """text [FROM place] [FOR length], or with commas"""
    given = [parser.scalar("a text")]
    start = length = None
    if parser.at("FROM", "FOR"):
        start = parser.scalar("a place") if parser.accept("FROM") else None
        length = parser.scalar("a length") if parser.accept("FOR") else None
        if start is None:
            start = parser.scalar("a place") if parser.accept("FROM") else exp.Literal.number(1)
        parts = [start] if length is None else [start, length]
        return exp.Anonymous(this="substring", expressions=[*given, *parts])
    while parser._match(TokenType.COMMA):
        given.append(parser.scalar("a value"))
    return exp.Anonymous(this="substring", expressions=given)


def closed(parse: Callable[..., Any]) -> Callable[[Parser], Any]:
    """The function and its closing parenthesis, which sqlglot does without."""

    def parsed(parser: Parser) -> Any:
        made = parse(parser)
        if parser._curr.token_type is not TokenType.R_PAREN:
            parser.refuse(f"expected ), found {parser.found()}")
        return made

    return parsed


def case(parser: Parser) -> exp.Expr:
    """CASE [value] {WHEN expression THEN expression} [ELSE expression] END"""
    value = None if parser.at("WHEN", "ELSE", "END") else parser.scalar("a value or WHEN")
    branches = []
    while parser.accept("WHEN"):
        condition = parser.scalar("a condition")
        parser.expect("THEN")
        found = parser.scalar("a value")
        branches.append(parser.expression(exp.If(this=condition, true=found)))
    default = parser.scalar("a value") if parser.accept("ELSE") else None
    parser.expect("END")
    made: exp.Expr = parser.expression(exp.Case(this=value, ifs=branches, default=default))
    return made


WORDY: dict[str, Callable[[Parser], exp.Expr]] = {
    "TRIM": _trim,
    "OVERLAY": _overlay,
    "POSITION": _position,
    "SUBSTRING": _substring,
    "FLOOR": _floor,
}
