"""How large a text may be.  What would take long to parse is refused before it is parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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
MAX_CHAIN = 200  # operators, or names with dots, in a row; conditions and texts may be more
_PARTS = re.compile(
    r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)"""  # to the quote, or to the end
    r"""|--[^\n]*|/\*(?:.*?\*/|.*)|\d[\w.]*|\w+|[^\w\s]""",
    re.DOTALL,
)
_SIGNS = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_CONDITIONS = (TokenType.AND, TokenType.OR, TokenType.WHEN, TokenType.BETWEEN)
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_IN_A_ROW = "operators in a row"
_OPERATORS = {
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
    *(TokenType.DIV, TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.TILDE),
    *(TokenType.EQ, TokenType.NEQ, TokenType.NULLSAFE_EQ, TokenType.XOR),
    *(TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.BETWEEN),
    *(TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE),
    *(TokenType.IRLIKE, TokenType.ESCAPE, TokenType.COLLATE),
    *(TokenType.ARROW, TokenType.DARROW),
}
_BETWEEN_CHAINS = {  # what ends one; conditions and texts are not nested, however many there are
    *(TokenType.COMMA, TokenType.SEMICOLON, TokenType.AND, TokenType.OR, TokenType.DPIPE),
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
    *(TokenType.JOIN, TokenType.ON, TokenType.UNION, TokenType.ALIAS, TokenType.VALUES),
}


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
    """Operators, predicates and dots in a row nest to the left, and are parsed by calls within
    calls.  Inside of parentheses a chain of its own begins, and the one around them goes on."""
    chains = [_TokenChain()]
    dots = _TokenChain()
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.DOT:
            dots.add(token)
        elif kind not in _NAMES:
            dots.end(token, "names with dots between them")
        if kind in _OPENING:
            chains.append(_TokenChain())
        elif kind in _CLOSING:
            chains.pop().end(token, _IN_A_ROW)
            chains = chains or [_TokenChain()]
        elif kind is TokenType.AND and chains[-1].between:
            chains[-1].between = False
        elif kind in _BETWEEN_CHAINS:
            chains[-1].end(token, _IN_A_ROW)
        elif kind in _OPERATORS:
            chains[-1].add(token)
            chains[-1].between = kind is TokenType.BETWEEN
    if tokens:
        for each, what in ((dots, "names with dots between them"), (chains[-1], _IN_A_ROW)):
            each.end(tokens[-1], what)


@dataclass
class _TokenChain:
    length: int = 0
    begin: int = 0
    between: bool = False  # whose AND is still to come

    def add(self, token: Token) -> None:
        self.begin = self.begin if self.length else token.start
        self.length += 1

    def end(self, token: Token, what: str) -> None:
        """Refuse the chain if it is too long; then another may begin."""
        if self.length > MAX_CHAIN:
            raise ParseError(
                f"{self.length} {what}",
                span=Span(self.begin, max(self.begin, token.start)),
                expected=f"up to {MAX_CHAIN}",
            )
        self.length = 0
        self.between = False
