"""How large a text may be.  What would take long to parse is refused before it is parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import ParseError, Span

MAX_LENGTH = 4_000_000
MAX_PARTS = 400_000  # names, values and signs; each takes 3 µs to find, and 5 to 50 to parse
MAX_NESTING = 30  # parentheses and CASEs inside each other; each takes some 20 calls to parse
MAX_CONDITIONS = 20_000  # joined by AND and OR, or after WHEN, in a script; each takes 0.1 ms
MAX_UNITED = 5_000  # SELECTs, in a script
MAX_TYPE_PARTS = 1_000  # of a nested type, those of its parts included
MAX_COLUMNS = 20_000  # of a SELECT
MAX_CHAIN = 200  # operators in a row; conditions and texts may be chained further
_PARTS = re.compile(
    r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)"""  # to the quote, or to the end
    r"""|--[^\n]*|/\*(?:.*?\*/|.*)|\d[\w.]*|\w+|[^\w\s]""",
    re.DOTALL,
)
_SIGNS = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_CONDITIONS = (TokenType.AND, TokenType.OR, TokenType.WHEN)
_OPERATORS = {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD}
_OPERANDS = {TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.DOT}


def check_length(sql: str) -> None:
    """Before anything else: to find the parts of a text takes longer than to count them."""
    if len(sql) > MAX_LENGTH:
        raise ParseError(f"the text has {len(sql):,} characters", expected=f"up to {MAX_LENGTH:,}")
    if next(islice(_PARTS.finditer(sql), MAX_PARTS, None), None) is not None:
        raise ParseError(
            f"the text has more than {MAX_PARTS:,} names, values and signs",
            hint="data in files, or several scripts",
        )


def check_tokens(tokens: Sequence[Token]) -> None:
    _check_nesting(tokens)
    _check_count(
        tokens, _CONDITIONS, MAX_CONDITIONS, "conditions", "IN (…) takes a long list of values"
    )
    _check_count(tokens, (TokenType.UNION,), MAX_UNITED, "UNIONs", "a stream FROM FILES")
    _check_chains(tokens)


def _check_nesting(tokens: Sequence[Token]) -> None:
    """Refuse what would be parsed by calls within calls without end, and say where."""
    depth = signs = 0
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACE, TokenType.CASE):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACE, TokenType.END):
            depth -= 1
        signs = signs + 1 if token.token_type in _SIGNS else 0
        if depth > MAX_NESTING or signs > MAX_NESTING:
            what = "parentheses are nested" if depth > MAX_NESTING else "signs and NOTs stand"
            raise ParseError(
                f"{what} more than {MAX_NESTING} deep",
                span=Span(token.start, token.end + 1),
                hint="sub-queries in FROM" if depth > MAX_NESTING else None,
            )


def _check_count(
    tokens: Sequence[Token], kinds: tuple[TokenType, ...], most: int, what: str, hint: str
) -> None:
    found = [token for token in tokens if token.token_type in kinds]
    if len(found) > most:
        raise ParseError(
            f"there are {len(found):,} {what}",
            span=Span(found[-1].start, found[-1].end + 1),
            expected=f"up to {most:,}",
            hint=hint,
        )


def _check_chains(tokens: Sequence[Token]) -> None:
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
