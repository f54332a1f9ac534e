"""Binds scalar expressions; names that are no scalar functions get a message that says what they
are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError, Span, nearest, shortened
from penstock.functions.casts import of_text
from penstock.functions.scalar_functions import ALIASES, SCALARS, scalar
from penstock.functions.user_functions import UserFunction
from penstock.model.types import BOOLEAN, NULL, STRING, Kind, Type, common_type
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Call, Case, Cast, Expression, Literal, cast_to, walk
from penstock.plan.nodes.over import NumberKind, StandingKind
from penstock.sql.binder.literals import (
    alike,
    called,
    cast_null,
    castable,
    constant,
    number,
    span_of,
    sql_type,
    text_as,
)
from penstock.sql.binder.operators import (
    ARITHMETIC,
    OPERATORS,
    PATTERNS,
    STRUCTS,
    chain,
    check_pattern,
    path,
    refuse_lone_backslash,
    refuse_many_parts,
    refuse_nested,
    refuse_place_0,
    struct_call,
)
from penstock.sql.binder.peer_functions import COMPOSED, escaped, joined
from penstock.sql.binder.scope import Scope
from penstock.sql.binder.time_functions import TIME_CALLS, bucket, time_call, unit_of
from penstock.sql.binder.warnings import warn
from penstock.sql.syntax import QuerySyntax

_NOT_DETERMINED = {
    "now",
    "proctime",
    "current_timestamp",
    "current_date",
    "current_time",
    "rand",
    "random",
    "uuid",
}
_BEFORE_OVER = {
    *(kind.value for kind in NumberKind),
    *(kind.value for kind in StandingKind),
    *("lag", "lead", "nth_value"),
}
_WINDOWS = {
    "window": "GROUP BY window(ts, '10 minutes'), or FROM TABLE(TUMBLE(TABLE s, …))",
    "session_window": "GROUP BY session_window(ts, '5 minutes')",
    "tumble": "GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE)",
    "hop": "GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
    "session": "GROUP BY SESSION(ts, INTERVAL '5' MINUTE)",
    "cumulate": "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), …))",
}


def refuse_undetermined(name: str, span: Span | None) -> None:
    if name.lower() in _NOT_DETERMINED:
        raise BindError(
            f"{name} would make the answer depend on when it is computed",
            span=span,
            hint="PROGRESS ON ts INTERNAL stamps tuples as they enter",
        )


def refuse_no_scalar(name: str, span: Span | None) -> None:
    """Refuse a name that is known elsewhere but is no scalar function, and say where it belongs."""
    refuse_undetermined(name, span)
    if name.lower() in _BEFORE_OVER:
        raise BindError(
            f"{name} looks at other rows, so it stands before OVER",
            span=span,
            hint=f"{name}(…) OVER (PARTITION BY k ORDER BY ts)",
        )
    if name.lower() in _WINDOWS:
        raise BindError(
            f"{name} makes windows of groups, and no value of a tuple",
            span=span,
            hint=_WINDOWS[name.lower()],
        )


# Calls of functions that the user has registered.


def user_call(function: UserFunction, given: list[Expression], span: Span | None) -> Call:
    wanted = function.arguments
    if wanted is None:
        wanted = tuple(STRING if each.type.kind is Kind.NULL else each.type for each in given)
    if len(given) != len(wanted):
        raise BindError(
            f"{function.name} does not take {len(given)} argument{'s' * (len(given) != 1)}",
            span=span,
            expected=f"{function.name}({', '.join(map(str, wanted))})",
        )
    if function.typed is not None:
        returns = function.typed(wanted)
        function = replace(function, arguments=wanted, returns=returns, typed=None)
    for place, (each, wanted_type) in enumerate(zip(given, wanted, strict=True), start=1):
        if not _fits(each.type, wanted_type):
            raise BindError(
                f"argument {place} of {function.name} is {each.type.a}",
                span=each.span or span,
                expected=wanted_type.a,
                hint=f"CAST(… AS {wanted_type})",
            )
    arguments = tuple(cast_to(each, to) for each, to in zip(given, wanted, strict=True))
    return Call(function.name, arguments, function.returns, function, span=span)


def _fits(given: Type, wanted: Type) -> bool:
    return common_type(given, wanted) == wanted


# Scalar expressions: names resolved, types checked, conversions made explicit.

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_COMPARING = {"nullif", "greatest", "least"}


class ExpressionBinder:
    """Binds expressions over the columns of one relation."""

    def __init__(self, scope: Scope, catalog: Catalog, clause: str = "this clause") -> None:
        self.scope = scope
        self.catalog = catalog
        self.clause = clause
        self.rows_beside: Callable[[exp.Window], Expression] | None = None  # where OVER may stand

    def bind(self, syntax: exp.Expr) -> Expression:
        try:
            bound = self._bind(syntax)
            if isinstance(bound, Call) and bound.type.parts:
                refuse_many_parts(bound.type)
            return bound
        except BindError as error:
            if error.span is None:
                error.span = span_of(syntax)
            raise

    @property
    def below(self) -> ExpressionBinder | None:
        """The binder of the grouped tuples, for a binder over groups; otherwise None."""
        return None

    def known_start(
        self,
        prefixes: Iterator[tuple[Expression, int]],  # noqa: ARG002
    ) -> tuple[Expression | None, int]:
        """Longest of several prefixes of a chain that has a column already; see GroupBinder."""
        return None, 0

    def condition(self, syntax: exp.Expr, where: str) -> Expression:
        bound = cast_null(self.bind(syntax), BOOLEAN)
        if bound.type != BOOLEAN:
            raise BindError(
                f"{where} needs a condition, this is {bound.type.a}", span=span_of(syntax)
            )
        return bound

    # --- the kinds of expressions ----------------------------------------------------------------

    def _bind(self, syntax: exp.Expr) -> Expression:
        span = span_of(syntax)
        _refuse_unread(syntax, span)
        match syntax:
            case exp.Paren():
                return self.bind(syntax.this)
            case exp.Column():
                return self.column(syntax)
            case exp.Null() | exp.Boolean() | exp.Literal() | exp.Interval():
                return constant(syntax)
            case exp.And() | exp.Or():
                return self._connective(syntax, span)
            case exp.Not():
                return Call("not", (self.condition(syntax.this, "NOT"),), BOOLEAN, span=span)
            case exp.Neg():
                return self._negate(syntax, span)
            case exp.Is():
                return self._is(syntax, span)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                pair = self._align(syntax.this, syntax.expression)
                distinct = Call("is_distinct", pair, BOOLEAN, span=span)
                if isinstance(syntax, exp.NullSafeNEQ):
                    return distinct
                return Call("not", (distinct,), BOOLEAN, span=span)
            case exp.In():
                return self._in(syntax, span)
            case exp.Subquery():
                from penstock.sql.binder.table_answers import table_value

                return table_value(syntax, self.scope, self.catalog)
            case exp.Exists():
                raise self._misplaced_subquery("EXISTS", span)
            case exp.Like() | exp.ILike():
                return self._like(syntax, span)
            case exp.Escape() if isinstance(syntax.this, exp.Like | exp.ILike):
                return self._like(syntax.this, span, syntax.expression)
            case exp.DPipe():
                pieces = self._operands(_spine(syntax, exp.DPipe), joined, self.bind)
                return replace(joined(pieces), span=span)
            case exp.Case():
                return self._case(syntax, span)
            case exp.Cast() | exp.TryCast():
                return self._cast(syntax, span)
            case exp.Extract():
                field = Literal(syntax.this.name.lower(), STRING, span=span)
                return self.call("date_part", [field, self.bind(syntax.expression)], span)
            case exp.StrPosition():
                arguments = [self.bind(syntax.this), self.bind(syntax.args["substr"])]
                return self.call("strpos", arguments, span)
            case exp.Substring():
                parts = [syntax.this, syntax.args.get("start"), syntax.args.get("length")]
                return self.call("substr", [self.bind(part) for part in parts if part], span)
            case exp.Anonymous():
                return self.function(syntax)
            case _ if type(syntax) in ARITHMETIC:
                return chain(self, syntax)
            case _ if type(syntax) in _COMPARISONS:
                name = _COMPARISONS[type(syntax)]
                return self.compare(name, syntax.this, syntax.expression, span)
            case _ if type(syntax) in OPERATORS:
                return OPERATORS[type(syntax)](self, syntax, span)
            case exp.Star():
                raise BindError("* stands alone in a SELECT, or in count(*)", span=span)
            case exp.Tuple():
                raise BindError("a list of values cannot stand here", span=span)
            case exp.Filter() | exp.WithinGroup():
                raise self.misplaced_clause(syntax)
            case exp.Window():
                return self.over(syntax)
            case _:
                raise BindError(f"{_written(span)} is not part of the dialect", span=span)

    def over(self, syntax: exp.Window) -> Expression:
        """Bind an OVER call; only a SELECT list and QUALIFY can hold one."""
        if self.rows_beside is not None:
            return self.rows_beside(syntax)
        raise BindError(
            f"OVER cannot stand in {self.clause}",
            span=span_of(syntax),
            expected="OVER in the SELECT list or in QUALIFY",
            hint="a sub-query in FROM",
        )

    def column(self, syntax: exp.Column) -> Expression:
        if syntax.table and isinstance(syntax.this, exp.Identifier):
            part = path(self, syntax)
            if part is not None:
                return part
        if syntax.args.get("db") or not isinstance(syntax.this, exp.Identifier):
            raise BindError(
                "a column has a name and at most a relation before it", span=span_of(syntax)
            )
        span = span_of(syntax)
        if not syntax.table and not self.scope.matches(syntax.name, None):
            refuse_undetermined(syntax.name, span)
        return self.scope.value(syntax.name, syntax.table or None, span)

    def function(self, syntax: exp.Anonymous) -> Expression:
        """Bind a call by name; aggregates are refused here."""
        name, span = str(syntax.name), span_of(syntax)
        if self.catalog.aggregate(name) is not None:
            raise self.misplaced_aggregate(name, span)
        if name.lower() in STRUCTS and self.catalog.function(name) is None:
            return struct_call(self, syntax)
        built_in = name.lower() in COMPOSED
        user = None if built_in else self.catalog.function(name)
        if not built_in and user is None:
            self.known(name, span)
        if any(isinstance(argument, exp.Distinct | exp.Star) for argument in syntax.expressions):
            raise BindError(f"{name} is not an aggregate, so it takes no * or DISTINCT", span=span)
        if user is None and name.lower() in TIME_CALLS:
            made = time_call(self, syntax)
            if made is not None:
                return replace(made, span=span)
        arguments = [self.bind(argument) for argument in syntax.expressions]
        if user is not None:
            return user_call(user, arguments, span)
        if name.lower() in COMPOSED:
            return self._composed(name.lower(), arguments, span)
        if name.lower() in ("time_bucket", "date_bin"):
            name, arguments = bucket(name, arguments, span)
        return self.call(name, arguments, span)

    def _composed(self, name: str, arguments: list[Expression], span: Span | None) -> Expression:
        made = replace(COMPOSED[name](arguments), span=span)
        for each in walk(made):
            if isinstance(each, Call) and each.function in PATTERNS:
                check_pattern(each)
        return made

    def misplaced_aggregate(self, name: str, span: Span | None) -> BindError:
        return BindError(
            f"the aggregate {name} cannot stand in {self.clause}, which sees single tuples",
            span=span,
            hint="HAVING" if self.clause in ("WHERE", "ON") else "a sub-query in FROM",
        )

    def misplaced_clause(self, syntax: exp.Expr) -> BindError:
        """Refuse FILTER or WITHIN GROUP behind a function that is no aggregate here."""
        clause = "FILTER" if isinstance(syntax, exp.Filter) else "WITHIN GROUP"
        called = syntax
        while isinstance(called, exp.Filter | exp.WithinGroup):
            called = called.this
        if isinstance(called, exp.Anonymous):
            if self.catalog.aggregate(str(called.name)) is not None:
                return self.misplaced_aggregate(str(called.name), span_of(syntax))
            self.known(str(called.name), span_of(called))
        return BindError(f"{clause} belongs to an aggregate", span=span_of(syntax))

    def known(self, name: str, span: Span | None) -> None:
        if scalar(name) is not None:
            return
        refuse_no_scalar(name, span)
        own = self.catalog.function_names
        known = [*SCALARS, *ALIASES, *COMPOSED, *STRUCTS, *own, *self.catalog.aggregate_names]
        close = nearest(name, known)
        raise BindError(
            f"there is no function called {shortened(name, 80)!r}",
            span=span,
            hint=" or ".join(close) or None,
        )

    def call(
        self, name: str, arguments: list[Expression], span: Span | None, shown: str | None = None
    ) -> Call:
        """Bind a call by the name of a function; messages use `shown` in its place, if given."""
        made = replace(called(name, arguments, shown), span=span)
        if made.function in ("date_trunc", "date_part"):
            unit, *rest = made.arguments
            made = replace(made, arguments=(unit_of(made.function, unit), *rest))
        if made.function in _COMPARING:
            refuse_nested(made.arguments[0].type, f"{made.function} cannot compare", span)
        if made.function in PATTERNS:
            check_pattern(made)
        if made.function == "substr":
            refuse_place_0(made)
        return made

    # --- operators -------------------------------------------------------------------------------

    def _connective(self, syntax: exp.Expr, span: Span | None) -> Expression:
        name = "and" if isinstance(syntax, exp.And) else "or"

        def condition(part: exp.Expr) -> Expression:
            return self.condition(part, name.upper())

        def together(parts: list[Expression]) -> Expression:
            return Call(name, tuple(parts), BOOLEAN, span=span)

        return together(self._operands(_spine(syntax, type(syntax)), together, condition))

    def _operands(
        self,
        syntax: list[exp.Expr],
        together: Callable[[list[Expression]], Expression],
        bind: Callable[[exp.Expr], Expression],
    ) -> list[Expression]:
        """Bind the operands of a chain; a prefix that is a group key is one of them."""

        def prefixes(below: ExpressionBinder) -> Iterator[tuple[Expression, int]]:
            parts = [below.bind(syntax[0])]
            for done, each in enumerate(syntax[1:-1], start=2):
                parts.append(below.bind(each))
                yield together(parts), done

        start, done = self.known_start(prefixes(self.below) if self.below else iter(()))
        rest = [bind(each) for each in syntax[done:]]
        return rest if start is None else [start, *rest]

    def _negate(self, syntax: exp.Neg, span: Span | None) -> Expression:
        operand = self.bind(syntax.this)
        if isinstance(operand, Literal) and operand.type.is_number and operand.value is not None:
            return constant(syntax)
        if not operand.type.is_number and operand.type.kind is not Kind.INTERVAL:
            raise BindError(f"{operand.type.a} has no sign", span=span)
        result = common_type(operand.type, number("2147483648", None).type)
        wide = result if result and operand.type.is_integer else operand.type
        return Call("negate", (cast_to(operand, wide),), wide, span=span)

    def compare(self, name: str, left: exp.Expr, right: exp.Expr, span: Span | None) -> Expression:
        if isinstance(left, exp.Null) or isinstance(right, exp.Null):
            warn("a comparison with NULL is never true", span, "IS NULL, or IS NOT NULL")
        return Call(name, self._align(left, right), BOOLEAN, span=span)

    def _align(self, left: exp.Expr, right: exp.Expr) -> tuple[Expression, Expression]:
        one, other = self.bind(left), self.bind(right)
        return alike([one, other], "compare")  # type: ignore[return-value]

    def _is(self, syntax: exp.Is, span: Span | None) -> Expression:
        if isinstance(syntax.expression, exp.Null):
            is_null = Call("is_null", (self.bind(syntax.this),), BOOLEAN, span=span)
            negated = bool(syntax.args.get("negate"))
            return Call("not", (is_null,), BOOLEAN, span=span) if negated else is_null
        if isinstance(syntax.expression, exp.Boolean):
            operand = self.condition(syntax.this, "IS")
            wanted = Literal(bool(syntax.expression.this), BOOLEAN)
            distinct = Call("is_distinct", (operand, wanted), BOOLEAN, span=span)
            return Call("not", (distinct,), BOOLEAN, span=span)
        raise BindError("IS takes NULL, TRUE, FALSE or DISTINCT FROM", span=span)

    def _in(self, syntax: exp.In, span: Span | None) -> Expression:
        if isinstance(syntax.args.get("query"), QuerySyntax):
            raise self._misplaced_subquery("IN (SELECT …)", span)
        if syntax.args.get("query") or syntax.args.get("field") or not syntax.expressions:
            raise BindError("IN takes a list of values", span=span, hint="IN (1, 2, 3)")
        values = [self.bind(syntax.this), *(self.bind(value) for value in syntax.expressions)]
        if any(isinstance(each, exp.Null) for each in syntax.expressions):
            hint = "IS NULL, or IS NOT NULL, as a condition of its own"
            warn("NULL in a list of IN equals nothing, and NOT IN is never true", span, hint)
        return Call("in", alike(values, "compare"), BOOLEAN, span=span)

    def _misplaced_subquery(self, what: str, span: Span | None) -> BindError:
        where = "under OR, NOT or CASE" if self.clause == "WHERE" else f"in {self.clause}"
        return BindError(
            f"{what} cannot stand {where}",
            span=span,
            expected="a condition of its own in WHERE, with AND between it and others",
        )

    def _like(
        self, syntax: exp.Like | exp.ILike, span: Span | None, escape: exp.Expr | None = None
    ) -> Expression:
        name = "like" if isinstance(syntax, exp.Like) else "ilike"
        operands = [cast_null(self.bind(part), STRING) for part in (syntax.this, syntax.expression)]
        for operand in operands:
            if operand.type != STRING:
                raise BindError(f"{name.upper()} takes texts, not {operand.type.a}", span=span)
        if escape is not None:
            pattern, character = operands[1], self.bind(escape)
            if not isinstance(pattern, Literal) or not isinstance(character, Literal):
                raise BindError("a pattern with ESCAPE is a constant", span=span)
            if pattern.value is not None:
                text = escaped(str(pattern.value), str(character.value), span)
                operands[1] = Literal(text, STRING, span=pattern.span)
        else:
            refuse_lone_backslash(operands[1])
        like = Call(name, tuple(operands), BOOLEAN, span=span)
        return Call("not", (like,), BOOLEAN, span=span) if syntax.args.get("negate") else like

    def _case(self, syntax: exp.Case, span: Span | None) -> Expression:
        conditions, values = [], []
        for branch in syntax.args["ifs"]:
            if syntax.this is not None:
                condition = self.compare("eq", syntax.this, branch.this, span)
            else:
                condition = self.condition(branch.this, "WHEN")
            conditions.append(condition)
            values.append(self.bind(branch.args["true"]))
        default = syntax.args.get("default")
        values.append(self.bind(default) if default else Literal(None, NULL, span=span))
        if not conditions:
            raise BindError("CASE needs a WHEN", span=span)
        *results, otherwise = alike(values, "give")
        branches = tuple(zip(conditions, results, strict=True))
        return Case(branches, otherwise, otherwise.type, span=span)

    def _cast(self, syntax: exp.Cast, span: Span | None) -> Expression:
        wanted = sql_type(syntax.args["to"], span)
        operand = self.bind(syntax.this)
        tries = isinstance(syntax, exp.TryCast)
        if isinstance(operand, Literal) and operand.type == STRING and not tries:
            if wanted.kind in (Kind.DATE, Kind.DECIMAL) and operand.value is not None:
                read = of_text(operand.value, wanted)
                if read is not None:
                    return Literal(read, wanted, span=span)
            return text_as(operand.value, wanted, span)
        if operand.type.kind is Kind.NULL or operand.type == wanted:
            return cast_to(operand, wanted)
        if not castable(operand.type, wanted):
            raise BindError(f"{operand.type.a} cannot be made {wanted.a}", span=span)
        return Cast(operand, wanted, tries, span=span)


_PARTS = ("this", "expression", "expressions")
_READ: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.AtTimeZone: ("zone",),
    exp.Between: ("low", "high", "symmetric"),
    exp.Case: ("ifs", "default"),
    exp.Cast: ("to",),
    exp.Column: ("table", "db", "catalog"),
    exp.DPipe: ("safe",),
    exp.ILike: ("negate",),
    exp.In: ("query", "field"),
    exp.Interval: ("unit",),
    exp.Is: ("negate",),
    exp.Like: ("negate",),
    exp.Literal: ("is_string",),
    exp.StrPosition: ("substr",),
    exp.Substring: ("start", "length"),
    exp.TryCast: ("to", "safe"),
    exp.Window: ("alias", "partition_by", "order", "spec", "over"),
}
"""What of sqlglot's nodes is read, besides their operands."""


def _refuse_unread(syntax: exp.Expr, span: Span | None) -> None:
    """Refuse clauses that sqlglot's parser accepts from other dialects and no code here reads:
    CAST(x AS INT FORMAT '…')."""
    read = _READ.get(type(syntax), ())
    for key, value in syntax.args.items():
        if value and key not in _PARTS and key not in read:
            word = key.strip("_").upper().replace("_", " ")
            raise BindError(f"{word} in {_written(span)} is not part of the dialect", span=span)


def _written(span: Span | None) -> str:
    """Return the source text of an expression, for messages."""
    if span is None or span.text is None:
        return "this"
    return f"`{shortened(span.text[span.start : span.end], 80)}`"


def _spine(syntax: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Operands of a chain of one operator, left to right, without recursion."""
    operands: list[exp.Expr] = []
    while type(syntax) is kind:
        operands.append(syntax.expression)
        syntax = syntax.this
    operands.append(syntax)
    return operands[::-1]
