"""Small pieces that clauses share: names, aliases, amounts, parameters and lists."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError, Span, nearest
from penstock.language.parsing.parameters import Parameters, constant_of, length_of
from penstock.language.parsing.tokens import SyntaxAt, TokenReader, span_of
from penstock.language.syntax.names import ROW_UNITS, Name, Quantity
from penstock.model.duration import is_unit, parse_duration

T = TypeVar("T")
# Words that end an expression or a relation, and so cannot be an alias without AS.
RESERVED = frozenset(
    [
        *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "LATE", "EMIT", "UNION"),
        "CONSISTENCY",
        *("EXCEPT", "ON", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "NATURAL"),
        "LATERAL",
        *("ORDER", "LIMIT", "OFFSET", "AS", "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"),
        *("CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "USING", "INTERSECT", "QUALIFY"),
        *("MODE", "WITHIN", "PROGRESS", "FORMAT", "BOUND", "PER", "IDLE", "FUTURE", "SKEW"),
    ]
)

_ENDS = (TokenType.COMMA, TokenType.R_PAREN, TokenType.SEMICOLON)


class PieceParser(TokenReader):
    parameters = Parameters({})  # what `:name` stands for

    def scalar(self, what: str = "an expression") -> exp.Expr:
        start = self._index
        parsed = self._parse_disjunction()
        if parsed is None or self._index == start:
            self.refuse(f"expected {what}, found {self.found()}")
        return parsed

    def name(self, what: str, allow_reserved: bool = False) -> Name:
        token = self._curr
        quoted = token.token_type is TokenType.IDENTIFIER
        usable = quoted or ((token.text[:1].isalpha() or token.text[:1] == "_") and self.word)
        if not self._tokens_left() or not usable:
            text = token.token_type is TokenType.STRING and token.text
            hint = f"`{text}` in back quotes" if text else None
            self.refuse(f"expected {what}, found {self.found()}", hint=hint)
        if not quoted and not allow_reserved and self.word in RESERVED:
            self.refuse(f"{token.text!r} cannot be {what}", hint=f"`{token.text}` in back quotes")
        self._advance()
        return Name(token.text, span_of(token))

    def at_reserved(self) -> bool:
        return self.word in RESERVED

    def at_reserved_alone(self) -> bool:
        """Whether a reserved word stands where its clause would not go on, as in `FROM order`."""
        ends = self._index + 1 >= len(self._tokens) or self._next.token_type in _ENDS
        return self.at_reserved() and (ends or self.next_word.partition(" ")[0] in RESERVED)

    def alias(self) -> Name | None:
        """`AS x`, or a bare name that is not a reserved word."""
        if self.at_as_of():
            return None
        if self.accept("AS"):
            return self.name("an alias")
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if is_name and self.word not in RESERVED and not (self.at_minus() or self.at_asof_join()):
            return self.name("an alias")
        return None

    def at_minus(self) -> bool:
        """Whether MINUS follows as Spark has it between SELECTs, and not a name."""
        return self.at("MINUS") and self.next_word in ("SELECT", "ALL", "DISTINCT", "(")

    def at_asof_join(self) -> bool:
        """Whether ASOF begins a join, or MATCH_CONDITION says of which times."""
        if self.at("MATCH_CONDITION"):
            return self.next_word == "("
        return self.at("ASOF") and self.next_word in ("JOIN", "LEFT", "INNER", "RIGHT", "FULL")

    def at_as_of(self) -> bool:
        """Whether `AS OF time` follows, and not an alias that is called `of`."""
        return (
            self.at("AS")
            and self.next_word == "OF"
            and self._index + 2 < len(self._tokens)
            and self._tokens[self._index + 2].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            and self.word_after(2) not in RESERVED
        )

    def at_text(self) -> bool:
        return self._curr.token_type is TokenType.STRING

    def text(self, what: str) -> Name:
        """A quoted text."""
        token = self._curr
        if token.token_type is not TokenType.STRING:
            self.refuse(f"expected {what} in quotes, found {self.found()}")
        self._advance()
        return Name(token.text, span_of(token))

    def quantity(self) -> Quantity:
        """`10 MINUTES`, `1000 ROWS`, `2.5`, `'5' SECONDS`, `'5 seconds'`."""
        start = self.here()
        self.accept("INTERVAL")
        if self._match(TokenType.COLON):
            return self._quantity_of(start)
        negative = self._match(TokenType.DASH)
        if self._curr.token_type is TokenType.STRING:
            amount_text, _, unit = self._curr.text.strip().partition(" ")
            if " " in unit.strip():  # '1 hour 30 minutes'
                amount_text, unit = str(self._combined(self._curr.text)), "MICROSECONDS"
        else:
            amount_text, unit = self._curr.text, ""
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING):
            self.refuse(f"expected a number, found {self.found()}", hint="10 MINUTES or 100 ROWS")
        try:
            amount = Decimal(amount_text)
        except ArithmeticError:
            self.refuse(f"expected a number, found {self.found()}", hint="10 MINUTES or 100 ROWS")
        if not amount.is_finite() or abs(amount.adjusted()) > 30:
            self.refuse(f"{amount_text[:40]!r} is out of range")
        self._advance()
        named = unit.upper() or self._unit()
        return Quantity(-amount if negative else amount, named, self.since(start))

    def _unit(self) -> str | None:
        """The word behind a number, unless the language goes on with it: `LIMIT 1 INTO 'x'`.  One
        that nobody knows is taken for a misspelled unit, and refused as such."""
        from penstock.language.words import words  # found in what this parser looks for

        word = self.word
        if not word.isidentifier() or word in RESERVED or self.at_minus():
            return None
        if not (is_unit(word) or word in ROW_UNITS) and word in words():
            return None
        self._advance()
        return word

    def _quantity_of(self, start: Span) -> Quantity:
        """A length that is handed in; a number of something may have its unit behind it."""
        name = self.name("a parameter", allow_reserved=True)
        try:
            amount, unit = length_of(name.text, self._value(name))
        except PenstockError as error:
            raise SyntaxAt(error.message, name.span, error.hint) from None
        return Quantity(amount, unit or self._unit(), self.since(start))

    def parameter(self) -> exp.Expr:
        """`:name`, as the constant that is handed in for it."""
        start = self._prev
        name = self.name("a parameter", allow_reserved=True)
        made = constant_of(name.text, self._value(name))
        for node in made.walk():
            node.meta.update(start=start.start, end=self._prev.end, sql=self.sql)
        return made

    def _value(self, name: Name) -> object:
        if name.text not in self.parameters.values:
            close = nearest(name.text, self.parameters.values)
            raise SyntaxAt(
                f"no value is given for the parameter {name.text!r}",
                name.span,
                f":{close[0]}" if close else f"db.sql(text, {name.text}=…)",
            )
        return self.parameters[name.text]

    def _combined(self, text: str) -> int:
        try:
            return parse_duration(text)
        except PenstockError as error:
            self.refuse(error.message, hint=error.hint)

    def list_of(self, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self._match(TokenType.COMMA):
            items.append(item())
        return tuple(items)

    def open_paren(self, what: str) -> None:
        if not self._match(TokenType.L_PAREN):
            self.refuse(f"expected ( before {what}, found {self.found()}")

    def close_paren(self) -> None:
        if not self._match(TokenType.R_PAREN):
            self.refuse(f"expected ), found {self.found()}")
