"""The parser that clauses are written for: sqlglot's expression parser, cut down to this dialect,
with spans.

sqlglot parses a hundred dialects; what Penstock does not speak is switched off here, so that every
function is a plain call and nothing is quietly taken for another dialect's idea.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.language.limits import MAX_CHAIN
from penstock.language.parsing.collections import (
    at_subscript,
    is_called,
    subscript,
    written_map,
    written_struct,
)
from penstock.language.parsing.pieces import PieceParser
from penstock.language.parsing.tokens import SyntaxAt, span_of
from penstock.language.parsing.wordy_functions import WORDY, case, closed
from penstock.language.syntax.names import Quantity
from penstock.language.syntax.queries import QuerySyntax
from penstock.model.duration import epoch_named

_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)
_NEXT_IN_A_LIST = (TokenType.COMMA, TokenType.R_PAREN)
_QUERIES = ("SELECT", "WITH")
_OF_SQLGLOT = ("CAST", "TRY_CAST", "EXTRACT")  # which are parsed as it does


class Parser(PieceParser):
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

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
        """A type, and what numbers count that stand for it: `TIMESTAMP EPOCH MILLISECONDS`."""
        found = super()._parse_types(*args, **options)
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

    def _parse_csv(
        self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
    ) -> list[Any]:
        """A list in which nothing is missing beside a comma."""
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
        """A star alone; what modifies it stands in a SELECT list only, which reads it itself."""
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
        """`(SELECT …)`: the value that a query gives."""
        if self._curr.token_type is not TokenType.L_PAREN or self.next_word not in _QUERIES:
            return super()._parse_paren()
        first = self._curr
        self._advance()
        return self._of_subquery(exp.Subquery(this=self.subquery()), first.start)

    def subquery(self) -> QuerySyntax:
        """A query inside an expression, as it stands in `EXISTS` and `IN`, or for a value."""
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
        """Scalar expressions hold no other sub-queries; those stand in FROM, or in brackets."""
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
