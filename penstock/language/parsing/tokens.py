"""Tokens by their words, where they stand, and what is said of one that does not belong there."""

from __future__ import annotations

from typing import NoReturn

import sqlglot.errors
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Span

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
    """A syntax error with its place; sqlglot's own backtracking has to be able to catch it."""

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
        """Take the words if they come one after the other."""
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
        """Where the parser stands; after the last token at the end of the statement."""
        if self._tokens_left():
            return span_of(self._curr)
        end = self._prev.end + 1 if self._prev.token_type is not TokenType.SENTINEL else 0
        return Span(end, end)

    def since(self, start: Span) -> Span:
        """From `start` to the last token taken."""
        return Span(start.start, max(start.end, self._prev.end + 1))

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        raise SyntaxAt(message, self.here(), hint)

    def _misplaced(self) -> str:
        """What stands where nothing can follow, and behind which clause."""
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
