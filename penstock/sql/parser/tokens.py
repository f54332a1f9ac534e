"""Tokens: the limits of a text, positions and spans, messages for misplaced words, and parameters.

A text that would take long to parse is refused before it is parsed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, NoReturn

import sqlglot.errors
from sqlglot import exp
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import BindError, ParseError, Span, shortened
from penstock.model.durations import parse_duration

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
_OPENING_BRACKETS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING_BRACKETS = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
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
    """Refuse a text that is too long, before tokenizing it, which takes longer than counting its
    parts."""
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
    """Refuse a text whose nesting would be parsed by too many nested calls, and say where."""
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
    """Refuse long chains of operators, predicates and dots, which nest to the left, and are parsed
    by nested calls. Inside of parentheses a chain of its own begins, and the one around them
    continues."""
    chains = [_TokenChain()]
    dots = _TokenChain()
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.DOT:
            dots.add(token)
        elif kind not in _NAMES:
            dots.end(token, "names with dots between them")
        if kind in _OPENING_BRACKETS:
            chains.append(_TokenChain())
        elif kind in _CLOSING_BRACKETS:
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
        """Refuse the chain if it is too long; otherwise begin another."""
        if self.length > MAX_CHAIN:
            raise ParseError(
                f"{self.length} {what}",
                span=Span(self.begin, max(self.begin, token.start)),
                expected=f"up to {MAX_CHAIN}",
            )
        self.length = 0
        self.between = False


# A reader of tokens: by their words, with spans, and with messages for a token that does not belong
# where it stands.

_WORDLESS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.SENTINEL)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)
# Words that a clause begins with, for messages that name it.
_CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "ON", "WHERE", "GROUP BY", "HAVING", "WINDOW", "ORDER BY", "LIMIT"),
        *("LATE", "EMIT", "CONSISTENCY", "PROGRESS", "VALUES", "FILES", "SOCKET", "INTO"),
    ]
)


class SyntaxAt(sqlglot.errors.ParseError):
    """A syntax error with its position, of a class that sqlglot's own backtracking catches."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message, [{"description": message}])  # sqlglot looks into the list
        self.message, self.span, self.hint = message, span, hint


class TokenReader(SqlglotParser):
    """Reads tokens one after the other."""

    @property
    def word(self) -> str:
        """The current token as an upper-case word; '' for strings, quoted names and numbers."""
        return _word(self._curr)

    @property
    def next_word(self) -> str:
        return _word(self._next)

    def word_after(self, offset: int) -> str:
        position = self._index + offset
        return _word(self._tokens[position]) if position < len(self._tokens) else ""

    def at(self, *words: str) -> bool:
        return self.word in words

    def accept(self, *words: str) -> bool:
        """Consume the words if all of them follow, one after the other."""
        for offset, word in enumerate(words):
            position = self._index + offset
            if position >= len(self._tokens) or _word(self._tokens[position]) != word:
                return False
        self._advance(len(words))
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                self.refuse(f"expected {word}, found {self.found()}")

    def found(self) -> str:
        token = self._curr
        return "the end of the statement" if not self._tokens_left() else repr(token.text)

    def here(self) -> Span:
        """Span of the current token; empty, at the end of the statement, after the last one."""
        if self._tokens_left():
            return span_of(self._curr)
        end = self._prev.end + 1 if self._prev.token_type is not TokenType.SENTINEL else 0
        return Span(end, end)

    def since(self, start: Span) -> Span:
        """Span from `start` to the last token consumed."""
        return Span(start.start, max(start.end, self._prev.end + 1))

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        raise SyntaxAt(message, self.here(), hint)

    def _misplaced(self) -> str:
        """Describe a token that cannot stand here, with the clause that it does not belong in."""
        depth = 0
        for token in reversed(self._tokens[: self._index]):
            depth += (token.token_type in _CLOSING) - (token.token_type in _OPENING)
            if depth <= 0 and _word(token) in _CLAUSES:
                return f"{self.found()} does not belong in the clause {_word(token)}"
        words = [_word(token) for token in self._tokens[:2]]
        if words[:1] in (["CREATE"], ["DROP"], ["ALTER"], ["SHOW"]):
            return f"{self.found()} does not belong in {' '.join(words)}"
        return f"{self.found()} does not belong here"

    def _tokens_left(self) -> bool:
        return self._index < len(self._tokens)


def _word(token: Token) -> str:
    return "" if token.token_type in _WORDLESS else token.text.upper()


def span_of(token: Token) -> Span:
    return Span(token.start, max(token.start, token.end + 1))


# Parameters: `:name` in a text stands for a value that is passed separately, and never becomes
# text.

SCALARS = (bool, int, float, Decimal, str, bytes, date, timedelta, type(None))


class Parameters:
    """The values of parameters, and which of them the text has used."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.used.add(name)
        return self.values[name]

    def refuse_unused(self) -> None:
        for name in self.values:
            if name not in self.used:
                raise BindError(
                    f"the parameter {shortened(name, 80)!r} does not occur in the text",
                    hint=f":{name} where its value should stand",
                )


def is_scalar(value: object) -> bool:
    """Whether an argument is a value of a parameter, and not data."""
    return isinstance(_plain(value), SCALARS)


def constant_of(name: str, value: object) -> exp.Expr:
    """Constant expression for a value.

    >>> constant_of("k", "it's").this, constant_of("n", -3).sql()
    ("it's", '-3')
    """
    value = _plain(value)
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _number(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _number(f"{abs(value):f}", value.is_signed())
        case float() if math.isfinite(value):
            text = repr(abs(float(value)))  # numpy writes its own otherwise
            return _number(text if "e" in text else f"{text}e0", math.copysign(1, value) < 0)
        case float():
            return _read(str(value), "DOUBLE")
        case str():
            return exp.Literal.string(value)
        case bytes():
            return _read(value.hex(), "BINARY")
        case datetime():
            return _read(value.isoformat(), "TIMESTAMP")
        case date():
            return _read(value.isoformat(), "DATE")
        case timedelta():
            length = exp.Literal.string(str(value // timedelta(microseconds=1)))
            return exp.Interval(this=length, unit=exp.Var(this="MICROSECONDS"))
    raise BindError(
        f"the parameter {name!r} is {shortened(repr(value), 80)}",
        expected="a number, a text, a truth value, a time, a length of time or None",
    )


def length_of(name: str, value: object) -> tuple[Decimal, str | None]:
    """Amount and unit of a number, of a text such as '10 minutes', or of a timedelta."""
    value = _plain(value)
    match value:
        case timedelta():
            return Decimal(value // timedelta(microseconds=1)), "MICROSECONDS"
        case str():
            return Decimal(parse_duration(value)), "MICROSECONDS"
        case int() | Decimal() if not isinstance(value, bool):
            return Decimal(value), None
    raise BindError(
        f"the parameter {name!r} is not a length",
        hint="a text such as '10 minutes', a timedelta, or a number",
    )


def _plain(value: Any) -> object:
    """Unwrap the Python value of a scalar of NumPy, pandas or Arrow."""
    if isinstance(value, SCALARS) or getattr(value, "ndim", 0) != 0:
        return value
    for method in ("as_py", "item"):
        found = getattr(value, method, None)
        if callable(found):
            return found()
    return value


def _number(text: str, negative: bool) -> exp.Expr:
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if negative else literal


def _read(text: str, name: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name))
