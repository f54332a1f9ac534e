"""The parser's toolbox: sqlglot's expression parser, cut down to this dialect, with spans.

sqlglot parses a hundred dialects; what Penstock does not speak is switched off here, so that every
function is a plain call and nothing is quietly taken for another dialect's idea.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, NoReturn, TypeVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from penstock.errors import PenstockError, Span, nearest
from penstock.language.parsing.collections import (
    at_subscript,
    is_called,
    subscript,
    written_map,
    written_struct,
)
from penstock.language.parsing.parameters import Parameters, constant_of, length_of
from penstock.language.parsing.wordy_functions import WORDY
from penstock.language.syntax import MAX_CHAIN, Name, Quantity, QuerySyntax
from penstock.model.duration import parse_duration

T = TypeVar("T")
_WORDLESS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.SENTINEL)
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
# Words that may follow a number without a unit.
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)
_QUERIES = ("SELECT", "WITH")
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)
# Words that a clause begins with, for messages that name it.
_CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "ON", "WHERE", "GROUP BY", "HAVING", "WINDOW", "ORDER BY", "LIMIT"),
        *("LATE", "EMIT", "CONSISTENCY", "PROGRESS", "VALUES", "FILES", "SOCKET", "INTO"),
    ]
)
_NEXT_IN_A_LIST = (TokenType.COMMA, TokenType.R_PAREN)
_NO_UNITS = RESERVED | {
    "BY",
    "FETCH",
    "KEEP",
    "ORDERED",
    "DELAY",
    "SLACK",
    "PUNCTUATED",
    "EXTERNAL",
    "INTERNAL",
    "LATENT",
}


class SyntaxAt(sqlglot.errors.ParseError):
    """A syntax error with its place; sqlglot's own backtracking has to be able to catch it."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message, [{"description": message}])  # sqlglot looks into the list
        self.message, self.span, self.hint = message, span, hint


class Parser(SqlglotParser):
    FUNCTIONS = {}
    FUNCTION_PARSERS = {
        **{
            name: SqlglotParser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING")
        },
        **WORDY,
    }
    NO_PAREN_FUNCTIONS = {}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SqlglotParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    RANGE_PARSERS = {
        token: SqlglotParser.RANGE_PARSERS[token]
        for token in (
            TokenType.BETWEEN,
            TokenType.IN,
            TokenType.IS,
            TokenType.LIKE,
            TokenType.ILIKE,
            TokenType.RLIKE,
            TokenType.IRLIKE,
        )
    }
    COLUMN_OPERATORS = {
        token: SqlglotParser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)
    }
    JSON_OPERATORS = {
        TokenType.ARROW: lambda parser, this, path: parser.expression(
            exp.JSONExtract(this=this, expression=path)
        ),
        TokenType.DARROW: lambda parser, this, path: parser.expression(
            exp.JSONExtractScalar(this=this, expression=path)
        ),
    }
    BRACKETS = frozenset()  # brackets may hold windows: see _parse_column_ops
    PLACEHOLDER_PARSERS = {TokenType.COLON: lambda parser: parser.parameter()}
    LAMBDAS = {}
    TYPE_LITERAL_PARSERS = {}

    parameters = Parameters({})  # what `:name` stands for

    # --- sqlglot's hooks -------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        if message.startswith("Required "):
            message = f"expected an expression, found {self.found()}"
        elif message.startswith("Expecting )") and self.at("SESSION"):
            hint = "FROM SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)"
            self.refuse("a session is a window of an aggregate, and no frame of OVER", hint=hint)
        elif message.startswith("Expecting "):
            message = f"expected {message.removeprefix('Expecting ')}, found {self.found()}"
        elif message.startswith("Expected TYPE"):
            message = f"expected a type, found {self.found()}"
        elif message.startswith("Invalid expression"):
            message = self._misplaced()
        if not token or token.token_type is TokenType.SENTINEL:
            self.refuse(message)
        raise SyntaxAt(message, _span_of(token))

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Note where every node stands: from its first child (or itself) to the last token."""
        made = super().expression(instance, token, comments)
        meta = made.meta
        last = self._prev
        if last.token_type is not TokenType.SENTINEL:
            children = () if isinstance(made, exp.Literal) else made.iter_expressions()
            starts = [child.meta["start"] for child in children if "start" in child.meta]
            meta["start"] = min([*starts, meta.get("start", last.start)])
            meta["end"] = max(meta.get("end", last.end), last.end)
            meta["sql"] = self.sql
        return made

    def _parse_disjunction(self) -> exp.Expr | None:
        """A constant in a list, where there may be very many, has no operator to look for."""
        token = self._curr
        if token.token_type in _CONSTANTS and self._next.token_type in _NEXT_IN_A_LIST:
            self._advance()
            made: exp.Expr = self.PRIMARY_PARSERS[token.token_type](self, token)  # type: ignore[no-untyped-call]
            return made
        return super()._parse_disjunction()

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call stands from its name to its closing parenthesis."""
        first = self._curr
        if self.at("EXISTS") and self._next.token_type is TokenType.L_PAREN:
            self._advance(2)
            return self._of_subquery(exp.Exists(this=self.subquery()), first.start)
        made = super()._parse_function_call(*args, **kwargs)
        if isinstance(made, exp.Expr) and self._prev.token_type is not TokenType.SENTINEL:
            made.meta.update(start=first.start, end=self._prev.end, sql=self.sql)
        return made

    def _parse_column_ops(self, this: Any) -> Any:
        """`a[1].b[2]`, unless the brackets are those of a window."""
        this = super()._parse_column_ops(this)
        if self._curr.token_type is TokenType.L_BRACE and is_called(this, "MAP"):
            this = written_map(self, this)
        chain = 0
        while this is not None and at_subscript(self, this):
            chain += 1
            if chain > MAX_CHAIN:
                self.refuse(f"there are more than {MAX_CHAIN} subscripts in a row")
            this = super()._parse_column_ops(subscript(self, this))
        return this

    def _parse_bracket(self, this: Any = None) -> Any:
        if this is None and self._curr.token_type is TokenType.L_BRACE:
            return written_struct(self)
        return subscript(self, None) if this is None and at_subscript(self, None) else this

    def _parse_in(self, this: Any, alias: bool = False) -> Any:
        if self._curr.token_type is not TokenType.L_PAREN or self.next_word not in _QUERIES:
            return super()._parse_in(this, alias)
        self._advance()
        return self._of_subquery(exp.In(this=this, query=self.subquery()), None)

    def _of_subquery(self, made: exp.Expr, start: int | None) -> exp.Expr:
        self.close_paren()
        made = self.expression(made)
        if start is not None:
            made.meta["start"] = start
        return made

    def subquery(self) -> QuerySyntax:
        """A query inside an expression, as it stands in `EXISTS` and `IN`."""
        from penstock.language.parsing.select import query  # a query holds expressions, too

        return query(self)

    def build_cast(self, strict: bool, **kwargs: Any) -> Any:
        """`x::INT::TEXT` can go on and on, and is nested to the left."""
        made = super().build_cast(strict, **kwargs)
        casts = kwargs["this"].meta.get("casts", 0) + 1
        if casts > MAX_CHAIN:
            self.refuse(f"there are more than {MAX_CHAIN} casts in a row")
        made.meta["casts"] = casts
        return made

    def _parse_select(self, *_: Any, **__: Any) -> None:
        """Scalar expressions hold no other sub-queries; those stand in FROM."""
        if self.at("SELECT", "WITH"):
            self.refuse(
                "a sub-query cannot stand here", hint="put it in FROM: FROM (SELECT …) AS q"
            )

    def _parse_interval(self, *_: Any, **__: Any) -> Any:
        if self._next.token_type not in (TokenType.STRING, TokenType.NUMBER):
            return None
        if not self.accept("INTERVAL"):
            return None
        start = self._prev
        quantity = self.quantity()
        while quantity.unit and self._curr.token_type is TokenType.NUMBER:  # 23 DAYS 4 HOURS
            more = self.quantity()
            length = self._combined(f"{quantity.amount} {quantity.unit} {more.amount} {more.unit}")
            quantity = Quantity(Decimal(length), "MICROSECONDS", more.span)
        made = self.expression(
            exp.Interval(
                this=exp.Literal.string(str(quantity.amount)),
                unit=exp.Var(this=quantity.unit) if quantity.unit else None,
            )
        )
        made.meta["start"] = start.start
        return made

    # --- tokens by their words -------------------------------------------------------------------

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
            return _span_of(self._curr)
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

    # --- small pieces shared by the clauses ------------------------------------------------------

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
        return Name(token.text, _span_of(token))

    def at_reserved(self) -> bool:
        return self.word in RESERVED

    def alias(self) -> Name | None:
        """`AS x`, or a bare name that is not a reserved word."""
        if self.at_as_of():
            return None
        if self.accept("AS"):
            return self.name("an alias")
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if is_name and self.word not in RESERVED:
            return self.name("an alias")
        return None

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
        return Name(token.text, _span_of(token))

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
        if not unit and self.word and self.word[:1].isalpha() and self.word not in _NO_UNITS:
            unit = self.word
            self._advance()
        return Quantity(-amount if negative else amount, unit.upper() or None, self.since(start))

    def _quantity_of(self, start: Span) -> Quantity:
        """A length that is handed in; a number of something may have its unit behind it."""
        name = self.name("a parameter", allow_reserved=True)
        try:
            amount, unit = length_of(name.text, self._value(name))
        except PenstockError as error:
            raise SyntaxAt(error.message, name.span, error.hint) from None
        if unit is None and self.word[:1].isalpha() and self.word not in _NO_UNITS:
            unit = self.word
            self._advance()
        return Quantity(amount, unit, self.since(start))

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


class Penstock(Dialect):
    """Texts in single or double quotes, names in back quotes, as in Spark SQL."""

    NULL_ORDERING = "nulls_are_large"

    class Tokenizer(Tokenizer):
        QUOTES = ["'", '"']
        IDENTIFIERS = ["`"]
        STRING_ESCAPES = ["'", '"']
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS = {
            **{
                word: kind
                for word, kind in Tokenizer.KEYWORDS.items()
                if not word.startswith("{") and word != "SESSION"  # which is a function of peers
            },
            "GROUPBY": TokenType.GROUP_BY,
            "GROUP-BY": TokenType.GROUP_BY,
            "∪": TokenType.UNION,
        }

    Parser = Parser


def _word(token: Token) -> str:
    return "" if token.token_type in _WORDLESS else token.text.upper()


def _span_of(token: Token) -> Span:
    return Span(token.start, max(token.start, token.end + 1))
