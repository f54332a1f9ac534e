"""The parser of the dialect: tokens, the expression parser that it cuts out of sqlglot's, functions
with words between their arguments, and the small pieces that clauses share (names, amounts, lists).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, NoReturn, TypeVar

import sqlglot.tokens
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import PenstockError, Span, nearest
from penstock.model.durations import epoch_named, is_unit, parse_duration
from penstock.sql.parser.tokens import (
    MAX_CHAIN,
    Parameters,
    SyntaxAt,
    TokenReader,
    constant_of,
    length_of,
    span_of,
)
from penstock.sql.syntax import ROW_UNITS, Name, Quantity, QuerySyntax

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
    """Parses the pieces that clauses share: names, aliases, amounts, parameters and lists."""

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
        """Whether a reserved word is used as a name, because its clause does not follow: `FROM
        order`."""
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
        """Whether MINUS follows as an operation between SELECTs, as in Spark, and not as a name."""
        return self.at("MINUS") and self.next_word in ("SELECT", "ALL", "DISTINCT", "(")

    def at_asof_join(self) -> bool:
        """Whether ASOF begins a join, or MATCH_CONDITION gives its times."""
        if self.at("MATCH_CONDITION"):
            return self.next_word == "("
        return self.at("ASOF") and self.next_word in ("JOIN", "LEFT", "INNER", "RIGHT", "FULL")

    def at_as_of(self) -> bool:
        """Whether `AS OF time` follows, and not an alias `of`."""
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
        """Parse the word behind a number as its unit, unless the language continues with it: `LIMIT
        1 INTO 'x'`. An unknown word is taken for a misspelled unit, and refused as such."""
        from penstock.sql.keywords import words

        word = self.word
        if not word.isidentifier() or word in RESERVED or self.at_minus():
            return None
        if not (is_unit(word) or word in ROW_UNITS) and word in words():
            return None
        self._advance()
        return word

    def _quantity_of(self, start: Span) -> Quantity:
        """Length from a parameter; a number may have its unit behind it."""
        name = self.name("a parameter", allow_reserved=True)
        try:
            amount, unit = length_of(name.text, self._value(name))
        except PenstockError as error:
            raise SyntaxAt(error.message, name.span, error.hint) from None
        return Quantity(amount, unit or self._unit(), self.since(start))

    def parameter(self) -> exp.Expr:
        """Parse `:name`, and return the constant that is passed for it."""
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


# Constructors of ARRAYs, STRUCTs and MAPs, and subscripts: `[1, 2]`, `{'a': 1}`, `MAP['k', 1]`,
# `a[1]`.

# Words that the brackets of a window begin with.
WINDOW_PARTS = (
    *("RANGE", "SLIDE", "WA", "WATTR", "RATTR", "SATTR", "PA", "PATTR", "ORIGIN", "SESSION"),
    "MAX",
)
_MAP = "MAP['key', 1], or CAST(NULL AS MAP<STRING, INT>)"
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)


def at_subscript(parser: Parser, this: exp.Expr | None) -> bool:
    """Whether brackets are a subscript or an ARRAY. A word and a number behind the bracket, or
    nothing, is a window, even if it is misspelt."""
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


# Functions with words between their arguments, as in standard SQL: TRIM, OVERLAY, POSITION and
# SUBSTRING, FLOOR of times as in Flink, and CASE.

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
    """Check that a closing parenthesis follows what a parser of arguments has read; sqlglot does
    without."""

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


# The expression parser, cut down to this dialect.
#
# sqlglot parses a hundred dialects; constructs that Penstock does not know are switched off here,
# so that every function is a plain call and nothing is quietly read as another dialect's construct.

_NEXT_IN_A_LIST = (TokenType.COMMA, TokenType.R_PAREN)
_QUERIES = ("SELECT", "WITH")
_OF_SQLGLOT = ("CAST", "TRY_CAST", "EXTRACT")  # which are parsed as it does


class Parser(PieceParser):
    """The expression parser that clauses are written for: sqlglot's, cut down to this dialect,
    with spans."""

    FUNCTIONS = {}
    FUNCTION_PARSERS = {
        name: closed(parse)
        for name, parse in {
            **{each: SqlglotParser.FUNCTION_PARSERS[each] for each in _OF_SQLGLOT},
            **WORDY,
        }.items()
    }
    NO_PAREN_FUNCTIONS = {}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": case}
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
    _types = 0  # how many are being parsed: one within the other

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Parse a type, and the unit that its numbers count: `TIMESTAMP EPOCH MILLISECONDS`."""
        self._types += 1
        try:
            found = super()._parse_types(*args, **options)
        finally:
            self._types -= 1
        if isinstance(found, exp.DataType) and self.at("EPOCH"):
            unit = epoch_named(self.next_word)
            if unit is not None:
                self._advance(2)
                found.meta["epoch"] = unit
        return found

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
        raise SyntaxAt(message, span_of(token))

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Record the span of every node: from its first child (or itself) to the last token."""
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
        """Parse an expression; a constant in a list, where there may be very many, is recognised
        without looking for operators."""
        token = self._curr
        if token.token_type in _CONSTANTS and self._next.token_type in _NEXT_IN_A_LIST:
            self._advance()
            made: exp.Expr = self.PRIMARY_PARSERS[token.token_type](self, token)  # type: ignore[no-untyped-call]
            return made
        return super()._parse_disjunction()

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        """Record the span of a call, from its name to its closing parenthesis."""
        first = self._curr
        if self.at("EXISTS") and self._next.token_type is TokenType.L_PAREN:
            self._advance(2)
            return self._of_subquery(exp.Exists(this=self.subquery()), first.start)
        made = super()._parse_function_call(*args, **kwargs)
        if isinstance(made, exp.Expr) and self._prev.token_type is not TokenType.SENTINEL:
            made.meta.update(start=first.start, end=self._prev.end, sql=self.sql)
        return made

    def _parse_column_ops(self, this: Any) -> Any:
        """Parse `a[1].b[2]`, unless the brackets are those of a window."""
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

    def _parse_csv(
        self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
    ) -> list[Any]:
        """Parse a list in which no item is missing next to a comma; of types, which may turn out
        to be the arguments of a function, that is left to the caller."""
        if self._types:
            return super()._parse_csv(parse_method, sep)
        found = parse_method()
        items = [] if found is None else [found]
        while self._match(sep):
            if found is not None:
                found = parse_method()
                items.append(found)
            if found is None:
                self.refuse(f"expected an expression, found {self.found()}")
        return items

    def _parse_between(self, this: Any) -> Any:
        start = self._index
        made = super()._parse_between(this)
        if made.args.get("high") is None:
            self.refuse(f"expected AND and an upper bound behind BETWEEN, found {self.found()}")
        low = made.args.get("low")
        if low is not None and not any(
            token.token_type is TokenType.AND for token in self._tokens[start : self._index]
        ):
            self.refuse("expected AND between the bounds of BETWEEN")
        return made

    def _parse_star_ops(self) -> exp.Expr:
        """Parse a star alone; its modifiers are parsed by SELECT lists."""
        star: exp.Expr = self.expression(exp.Star())
        return star

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

    def _parse_paren(self) -> Any:
        """Parse `(SELECT …)`, a scalar sub-query, or an expression in parentheses."""
        if self._curr.token_type is not TokenType.L_PAREN or self.next_word not in _QUERIES:
            return super()._parse_paren()
        first = self._curr
        self._advance()
        return self._of_subquery(exp.Subquery(this=self.subquery()), first.start)

    def subquery(self) -> QuerySyntax:
        """Parse a query inside an expression, as in `EXISTS` and `IN`, or a scalar sub-query."""
        from penstock.sql.parser.select import query

        return query(self)

    def build_cast(self, strict: bool, **kwargs: Any) -> Any:
        """Build `x::INT::TEXT`, which may be long, and is nested to the left."""
        made = super().build_cast(strict, **kwargs)
        casts = kwargs["this"].meta.get("casts", 0) + 1
        if casts > MAX_CHAIN:
            self.refuse(f"there are more than {MAX_CHAIN} casts in a row")
        made.meta["casts"] = casts
        return made

    def _parse_select(self, *_: Any, **__: Any) -> None:
        """Refuse a sub-query where an expression has none: sub-queries are in FROM or in
        parentheses."""
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


# The dialect: quotes, and the words that are tokens of their own.

_OTHERS = frozenset(
    [
        "SESSION",  # a function of peers
        *("STR", "CLOB", "LONGVARCHAR", "VARCHAR2", "NVARCHAR2", "NVARCHAR", "NCHAR"),
        *("NUMBER", "FIXED"),  # whose digits others count otherwise
        *("INT1", "INT8"),  # of 8 bits here, and of 64 there
    ]
)
"""Words that are no key words and no types in this dialect."""


class Penstock(Dialect):
    """The dialect: texts in single or double quotes, names in back quotes, as in Spark SQL."""

    NULL_ORDERING = "nulls_are_large"

    class Tokenizer(sqlglot.tokens.Tokenizer):
        """Quotes, escapes and keywords of the dialect."""

        QUOTES = ["'", '"']
        IDENTIFIERS = ["`"]
        STRING_ESCAPES = ["'", '"']
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS = {
            **{
                word: kind
                for word, kind in sqlglot.tokens.Tokenizer.KEYWORDS.items()
                if not word.startswith("{") and word not in _OTHERS
            },
            "GROUPBY": TokenType.GROUP_BY,
            "GROUP-BY": TokenType.GROUP_BY,
            "∪": TokenType.UNION,
        }

    Parser = Parser
