"""Expressions over groups: what stands in SELECT and HAVING beside aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.errors import BindError, Span
from penstock.functions.aggregates import AGGREGATES, COUNT_IF, AggregateFunction
from penstock.language.binding.groups.grouping_sets import GroupingSets
from penstock.language.binding.groups.listed import (
    by_a_list,
    one_value,
    order_arguments,
    taken_apart,
)
from penstock.language.binding.scalars.expressions import ExpressionBinder
from penstock.language.binding.scalars.literals import span_of
from penstock.language.binding.scalars.nested import refuse_nested
from penstock.language.binding.scope import Scope
from penstock.language.binding.windows.window_columns import WindowColumns
from penstock.language.syntax.queries import SelectItem
from penstock.model.types import BIGINT, BOOLEAN, STRING, Kind
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    Named,
    cast_to,
)
from penstock.plan.nodes.aggregates import NamedAggregate

_GROUPING = ("grouping", "grouping_id")
_OF_ANY_TYPE = ("count", "array_agg")  # they look at no value, or put it into the result


# Those whose value depends on an order; string_agg is by value, the others by position.
_IN_AN_ORDER = ("first", "last", "string_agg")
_LISTING = ("array_agg", "collect_list", "collect_set", "list")


def has_aggregate(syntax: exp.Expr, catalog: Catalog) -> bool:
    """Whether rows are folded; an aggregate with OVER leaves them as they are."""
    over = {id(called_over(node)) for node in syntax.find_all(exp.Window)}
    return any(
        isinstance(node, exp.Anonymous)
        and id(node) not in over
        and catalog.aggregate(str(node.name)) is not None
        for node in syntax.walk()
    )


def called_over(window: exp.Window) -> exp.Expr:
    """The function before OVER, without what stands around it."""
    syntax = window.this
    while isinstance(syntax, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        syntax = syntax.this
    assert isinstance(syntax, exp.Expr)
    return syntax


class GroupBinder(ExpressionBinder):
    """Binds expressions over the output of an aggregation: keys, window columns and aggregates
    become columns; the aggregates that were met are collected."""

    def __init__(
        self,
        scope: Scope,
        catalog: Catalog,
        keys: list[Named],
        window: WindowColumns,
        sets: GroupingSets | None = None,
    ) -> None:
        super().__init__(scope, catalog, "an aggregate")
        self.tuples = ExpressionBinder(scope, catalog, "an aggregate")
        self.keys = keys
        self.window = window
        self._sets = sets
        self.aggregates: list[NamedAggregate] = []
        self._named: dict[str, list[NamedAggregate]] = {}  # those that are written alike
        self._taken: set[str] = set()
        self._aliases: dict[str, exp.Expr] = {}
        self._keys: dict[str, list[Named]] = {}
        self._starts = {
            (key.expression.function, len(key.expression.arguments))
            for key in keys
            if isinstance(key.expression, Call)
        }
        for key in keys:
            self._keys.setdefault(str(key.expression), []).append(key)

    def bind(self, syntax: exp.Expr) -> Expression:
        return self._as_key(syntax) or super().bind(syntax)

    def _as_key(self, syntax: exp.Expr) -> Column | None:
        """The column of the key that the whole expression is, if it is one."""
        if has_aggregate(syntax, self.catalog):
            return None
        try:
            bound = self.tuples.bind(syntax)
        except BindError:
            return None  # a window column, or an error that is reported where it stands
        return self._key_of(bound)

    def of_key(self, key: Expression) -> Column:
        """The column of a key over tuples."""
        column = self._key_of(key)
        assert column is not None
        return column

    def _key_of(self, bound: Expression) -> Column | None:
        for key in self._keys.get(str(bound), ()) if self._keys else ():
            if key.expression == bound:
                return Column(key.name, bound.type, span=bound.span)
        return None

    @property
    def below(self) -> ExpressionBinder | None:
        return self.tuples if self._starts else None

    def known_start(
        self, prefixes: Iterator[tuple[Expression, int]]
    ) -> tuple[Expression | None, int]:
        """The key that a chain of operators begins with: GROUP BY f * 2 knows f * 2 + 1."""
        found: tuple[Expression | None, int] = None, 0
        try:
            for bound, done in prefixes:
                if isinstance(bound, Call) and (bound.function, len(bound.arguments)) in (
                    self._starts
                ):
                    key = self._key_of(bound)
                    found = found if key is None else (key, done)
        except BindError:
            pass  # an aggregate, or an error that is reported where it stands
        return found

    def over_groups(self, having: exp.Expr, items: tuple[SelectItem, ...]) -> Expression:
        """The condition of HAVING, which also knows the aliases of what is selected."""
        self._aliases = {
            item.alias.text.casefold(): item.expression for item in items if item.alias is not None
        }
        return self.condition(having, "HAVING")

    def column(self, syntax: exp.Column) -> Expression:
        name = syntax.name.lower()
        if not syntax.table and (column := self.window.bind(name, span_of(syntax))) is not None:
            return column
        if not syntax.table and syntax.name.casefold() in self._aliases:
            return self.bind(self._aliases[syntax.name.casefold()])
        found = self.tuples.column(syntax)
        raise BindError(
            f"column {str(found)!r} is neither in GROUP BY nor inside an aggregate",
            span=span_of(syntax),
            hint=f"GROUP BY {syntax.sql()}, or first({syntax.sql()})",
        )

    def function(self, syntax: exp.Anonymous) -> Expression:
        function = self.catalog.aggregate(str(syntax.name))
        if self._sets is not None and str(syntax.name).lower() in _GROUPING:
            bound = [self.tuples.bind(each) for each in syntax.expressions]
            return self._sets.grouping(bound, span_of(syntax))
        if function is None:
            return super().function(syntax)
        return self._aggregate(function, syntax, None)

    def _bind(self, syntax: exp.Expr) -> Expression:
        listed = by_a_list(syntax)
        if listed is not None:
            return super()._bind(listed)
        behind = isinstance(syntax, exp.Filter | exp.WithinGroup)
        if behind and not has_aggregate(syntax, self.catalog):
            raise self.misplaced_clause(syntax)
        if isinstance(syntax, exp.Filter):
            called = _ordered(syntax.this)
            function = self.catalog.aggregate(str(called.name)) if called is not None else None
            if called is not None and function is not None:
                where = self.tuples.condition(syntax.expression.this, "FILTER")
                return self._aggregate(function, called, where)
        if isinstance(syntax, exp.WithinGroup):
            called = _ordered(syntax)
            if called is not None and self.catalog.aggregate(str(called.name)) is not None:
                return self.function(called)
        return super()._bind(syntax)

    def _aggregate(
        self, function: AggregateFunction, syntax: exp.Anonymous, where: Expression | None
    ) -> Expression:
        span = span_of(syntax)
        call = aggregate_call(function, syntax, where, self.tuples)
        alike = self._named.setdefault(str(call), [])
        for known in alike:
            if known.call == call:
                return Column(known.name, call.type, span=span)
        name = str(call)
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        alike.append(NamedAggregate(name, call))
        self.aggregates.append(alike[-1])
        return Column(name, call.type, span=span)


def aggregate_call(
    function: AggregateFunction,
    syntax: exp.Anonymous,
    where: Expression | None,
    tuples: ExpressionBinder,
) -> AggregateCall:
    """An aggregate over what `tuples` binds."""
    span, name = span_of(syntax), str(syntax.name).lower()
    if function.name == "array_agg":
        values, distinct, keys = one_value(syntax)
        call = _call(function, values, distinct or name == "collect_set", where, span, tuples)
        more = order_arguments(keys, tuples)
        return replace(call, arguments=(*call.arguments, *more))
    given, distinct = _without_order(function, syntax, tuples)
    if name == "regr_count":
        return _regr_count(function, given, where, span, tuples)
    if name in COUNT_IF:
        if len(given) != 1 or distinct or isinstance(given[0], exp.Star):
            raise BindError(f"{syntax.name} takes one condition", span=span)
        condition = tuples.condition(given[0], str(syntax.name))
        where = condition if where is None else Call("and", (condition, where), BOOLEAN)
        given = [exp.Star()]
    return _call(function, given, distinct, where, span, tuples)


def _regr_count(
    function: AggregateFunction,
    given: list[exp.Expr],
    where: Expression | None,
    span: Span | None,
    tuples: ExpressionBinder,
) -> AggregateCall:
    """How many pairs are known."""
    if len(given) != 2:
        raise BindError("regr_count takes two numbers", span=span)
    nulls = [Call("is_null", (tuples.bind(each),), BOOLEAN) for each in given]
    known = [Call("not", (each,), BOOLEAN) for each in nulls]
    both = Call("and", (*known, *([] if where is None else [where])), BOOLEAN)
    return AggregateCall(function, (), BIGINT, False, both, span=span)


def _call(
    function: AggregateFunction,
    given: list[exp.Expr],
    distinct: bool,
    where: Expression | None,
    span: Span | None,
    tuples: ExpressionBinder,
) -> AggregateCall:
    if len(given) == 1 and isinstance(given[0], exp.Star):
        if function.name != "count" or distinct:
            raise BindError(f"only count takes *, {function.name} takes a column", span=span)
        given = []
    elif function.name == "count" and not given:
        raise BindError("count takes a column or *", span=span, hint="count(*)")
    elif function.name == "count" and len(given) > 1 and not distinct:
        raise BindError("count of several columns is DISTINCT", span=span, hint="count(*)")
    arguments = [tuples.bind(argument) for argument in given]
    types = function.signature.convert(function.name, [each.type for each in arguments])
    # min(NULL) has to be of some type
    types = tuple(STRING if each.kind is Kind.NULL else each for each in types)
    converted = tuple(cast_to(each, to) for each, to in zip(arguments, types, strict=True))
    _check_constants(function, arguments)
    if function.name not in _OF_ANY_TYPE or distinct:
        for each in arguments:
            refuse_nested(each.type, f"{function.name} cannot compare", each.span or span)
    return AggregateCall(function, converted, function.returns(types), distinct, where, span=span)


def _ordered(syntax: exp.Expr) -> exp.Anonymous | None:
    """
    before: percentile_cont(0.5) WITHIN GROUP (ORDER BY x)
    after:  percentile_cont(x, 0.5)
    """
    if isinstance(syntax, exp.Anonymous):
        return syntax
    if not isinstance(syntax, exp.WithinGroup) or not isinstance(syntax.this, exp.Anonymous):
        return None
    [key, *others] = syntax.expression.expressions
    called = syntax.this
    if str(called.name).lower() in _LISTING and len(called.expressions) == 1:
        ordered = exp.Order(this=called.expressions[0], expressions=syntax.expression.expressions)
        made = exp.Anonymous(this=called.this, expressions=[ordered])
        made.meta.update(called.meta)
        return made
    shares = str(called.name).lower() in ("percentile_cont", "percentile_disc", "mode")
    if others or key.args.get("desc") or not (shares or key.this == _value(called)):
        raise _own_order(called, syntax)
    if not shares:
        return called
    made = exp.Anonymous(this=called.this, expressions=[key.this, *called.expressions])
    made.meta.update(called.meta)
    return made


def _without_order(
    function: AggregateFunction, syntax: exp.Anonymous, tuples: ExpressionBinder
) -> tuple[list[exp.Expr], bool]:
    """The arguments, and whether they are DISTINCT.  ORDER BY may say what is so anyway, and most
    aggregates are the same in every order."""
    values, distinct, keys = taken = taken_apart(syntax)
    for key in keys:
        tuples.bind(key.this)
    counts = function.name in _IN_AN_ORDER or AGGREGATES.get(function.name) is not function
    if keys and counts and not (taken.by_value and not keys[0].args.get("desc")):
        raise _own_order(syntax, syntax)
    return values, distinct


def _value(syntax: exp.Anonymous) -> exp.Expr | None:
    """The first argument, behind DISTINCT if that is said."""
    first = next(iter(syntax.expressions), None)
    return first.expressions[0] if isinstance(first, exp.Distinct) else first


def _own_order(called: exp.Anonymous, syntax: exp.Expr) -> BindError:
    return BindError(
        f"{called.name} takes values in their own order, from the least to the greatest",
        span=span_of(syntax),
        expected="ORDER BY the value itself",
    )


def _check_constants(function: AggregateFunction, arguments: list[Expression]) -> None:
    """Shares and counts are constants, in a range that has a meaning."""
    for argument in arguments[len(arguments) - function.constants :] if function.constants else ():
        if not isinstance(argument, Literal) or argument.value is None:
            raise BindError(
                f"the last argument of {function.name} is a constant", span=argument.span
            )
        value = argument.value
        if function.name == "string_agg":
            continue
        if function.name in ("top_k", "approx_top_k"):
            if value < 1:
                raise BindError(f"{function.name} wants at least 1", span=argument.span)
        elif not 0 <= value <= 1:
            raise BindError(
                f"{value} is not a share", span=argument.span, expected="between 0 and 1"
            )
