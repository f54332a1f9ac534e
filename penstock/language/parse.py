"""SQL text to syntax.  Whatever the text is, the outcome is statements or a `ParseError`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token

from penstock.errors import ParseError, PenstockError, Span
from penstock.language.limits import check_length, check_tokens
from penstock.language.parsing.collections import with_struct_types
from penstock.language.parsing.dialect import Penstock
from penstock.language.parsing.parameters import Parameters
from penstock.language.parsing.parser import Parser
from penstock.language.parsing.statements import column, statement
from penstock.language.parsing.tokens import SyntaxAt
from penstock.language.syntax.names import Quantity
from penstock.language.syntax.statements import ColumnSyntax, Statement

T = TypeVar("T")


def parse_script(sql: str, parameters: Mapping[str, object] | None = None) -> list[Statement]:
    """The statements of a script, which semicolons separate; `:name` is the parameter of that
    name, and there are no others."""
    given = Parameters(parameters or {})
    with pointing_into(sql):
        tokens = _tokenize(sql)
        check_tokens(tokens)
        found = [each for each in _parse(sql, tokens, statement, given) if each is not None]
        given.refuse_unused()
        return found


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
        check_tokens(tokens)
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


@contextmanager
def pointing_at(span: Span) -> Iterator[None]:
    """Errors of the block that do not say where they are have to do with this part of the text."""
    try:
        yield
    except PenstockError as error:
        if error.span is None:
            error.span = span
        raise


def _tokenize(sql: str) -> list[Token]:
    check_length(sql)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise ParseError(
            "the text holds half a character", span=Span(error.start, error.end)
        ) from None
    try:
        return with_struct_types(Penstock().tokenize(sql))
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


def _parse(
    sql: str, tokens: list[Token], rule: Callable[[Parser], T], given: Parameters | None = None
) -> list[T]:
    parser = Parser(dialect=Penstock())
    parser.parameters = given or Parameters({})
    try:
        return parser._parse(rule, tokens, sql)  # type: ignore[arg-type, return-value]
    except SyntaxAt as error:
        raise ParseError(error.message, span=error.span, hint=error.hint) from None
    except SqlglotError as error:
        raise ParseError(str(error).splitlines()[0], span=parser.here()) from None
