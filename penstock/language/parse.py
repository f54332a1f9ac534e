"""SQL text to syntax.  Whatever the text is, the outcome is statements or a `ParseError`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import ParseError, PenstockError, Span
from penstock.language.parsing.parser import Parser, Penstock, SyntaxAt
from penstock.language.parsing.statements import column, statement
from penstock.language.syntax import MAX_CHAIN, ColumnSyntax, Quantity, Statement

T = TypeVar("T")

MAX_NESTING = 30  # parentheses and CASEs inside each other; each takes some 20 calls to parse
MAX_LENGTH = 4_000_000
MAX_CONDITIONS = 20_000  # joined by AND and OR, or after WHEN, in a script; each takes 0.1 ms
_SIGNS = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_CONDITIONS = (TokenType.AND, TokenType.OR, TokenType.WHEN)
_OPERATORS = {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD}
_OPERANDS = {TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.DOT}


def parse_script(sql: str) -> list[Statement]:
    """The statements of a script, which semicolons separate."""
    with pointing_into(sql):
        tokens = _tokenize(sql)
        _check_nesting(tokens)
        _check_chains(tokens)
        return [found for found in _parse(sql, tokens, statement) if found is not None]


def parse_expression(sql: str) -> exp.Expr:
    """One scalar expression."""
    return _parse_one(sql, lambda parser: parser.scalar())


def parse_quantity(sql: str) -> Quantity:
    """One length: `5 seconds`, `100 rows`, `7`."""
    return _parse_one(sql, lambda parser: parser.quantity())


def parse_columns(sql: str) -> tuple[ColumnSyntax, ...]:
    """Columns as in CREATE STREAM: `a INT, ts TIMESTAMP`."""
    return _parse_one(sql, lambda parser: parser.list_of(lambda: column(parser)))


def _parse_one(sql: str, rule: Callable[[Parser], T]) -> T:
    with pointing_into(sql):
        tokens = _tokenize(sql)
        _check_nesting(tokens)
        _check_chains(tokens)
        found = _parse(sql, tokens, rule)
        if len(found) != 1:
            raise ParseError("expected one expression", span=Span(0, len(sql)))
        return found[0]


@contextmanager
def pointing_into(sql: str) -> Iterator[None]:
    """Give every error of the block the text that its span points into."""
    try:
        yield
    except RecursionError:
        message = "the query is nested too deeply"
        raise ParseError(message, hint="sub-queries in FROM").with_text(sql) from None
    except PenstockError as error:
        error.with_text(sql)
        raise


def _tokenize(sql: str) -> list[Token]:
    if len(sql) > MAX_LENGTH:
        raise ParseError(f"the text has {len(sql):,} characters", expected=f"up to {MAX_LENGTH:,}")
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise ParseError(
            "the text holds half a character", span=Span(error.start, error.end)
        ) from None
    try:
        return Penstock().tokenize(sql)
    except TokenError as error:
        raise _unterminated(sql, error) from None


def _unterminated(sql: str, error: TokenError) -> ParseError:
    cause = str(error.__cause__ or error)
    match = re.search(r"Missing (\S+) from \d+:(\d+)", cause)
    if not match and (comment := sql.rfind("/*")) >= 0 and "*/" not in sql[comment:]:
        match = re.match(r"(\S+) (\d+)", f"*/ {comment}")
    if not match:
        start = max(0, min(error.start or 0, len(sql)))
        return ParseError("this cannot be read as SQL", span=Span(start, start))
    quote, start = match[1], min(int(match[2]), len(sql))
    what = {"`": "a quoted name", "*/": "a comment"}.get(quote, "a string")
    return ParseError(
        f"{what} is not terminated",
        span=Span(start, start + 1),
        expected=f"a closing {quote}",
    )


def _check_nesting(tokens: list[Token]) -> None:
    """Refuse what would be parsed by calls within calls without end, and say where."""
    depth = signs = 0
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.CASE):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.END):
            depth -= 1
        signs = signs + 1 if token.token_type in _SIGNS else 0
        if depth > MAX_NESTING or signs > MAX_NESTING:
            what = "parentheses are nested" if depth > MAX_NESTING else "signs and NOTs stand"
            raise ParseError(
                f"{what} more than {MAX_NESTING} deep",
                span=Span(token.start, token.end + 1),
                hint="sub-queries in FROM" if depth > MAX_NESTING else None,
            )


def _check_chains(tokens: list[Token]) -> None:
    """Refuse what takes long to parse, before it is parsed."""
    conditions = [token for token in tokens if token.token_type in _CONDITIONS]
    if len(conditions) > MAX_CONDITIONS:
        last = conditions[-1]
        raise ParseError(
            f"there are {len(conditions):,} conditions",
            span=Span(last.start, last.end + 1),
            expected=f"up to {MAX_CONDITIONS:,}",
            hint="IN (…) takes a long list of values",
        )
    operators = begin = 0
    for token in tokens:
        if token.token_type in _OPERATORS:
            begin = begin if operators else token.start
            operators += 1
        elif token.token_type not in _OPERANDS:
            _check_operators(operators, begin, token.start)
            operators = 0
    _check_operators(operators, begin, tokens[-1].end if tokens else 0)


def _check_operators(operators: int, begin: int, end: int) -> None:
    if operators > MAX_CHAIN:
        raise ParseError(
            f"{operators} operators in a row",
            span=Span(begin, max(begin, end)),
            expected=f"up to {MAX_CHAIN}",
        )


def _parse(sql: str, tokens: list[Token], rule: Callable[[Parser], T]) -> list[T]:
    parser = Parser(dialect=Penstock())
    try:
        return parser._parse(rule, tokens, sql)  # type: ignore[arg-type, return-value]
    except SyntaxAt as error:
        raise ParseError(error.message, span=error.span, hint=error.hint) from None
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0], span=parser.here()) from None
