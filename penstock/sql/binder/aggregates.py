"""Binds aggregation: aggregates and their arguments, expressions over groups, GROUP BY ALL and
GROUPING SETS.

GROUPING SETS fold every tuple once for each set, in one pass over one input. Copies of a tuple
differ in the number of their set, and in the keys that are not in it, which are NULL. So one
aggregation answers for all sets, whatever its windows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from sqlglot import exp

from penstock.errors import BindError, Span
from penstock.functions.aggregate_functions import AGGREGATES, COUNT_IF, AggregateFunction
from penstock.model.types import BIGINT, BOOLEAN, INT, STRING, Kind, Type, free_name
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    Named,
    cast_to,
)
from penstock.plan.nodes.aggregation import NamedAggregate
from penstock.plan.nodes.node import Node, Project, Union
from penstock.plan.properties import substituted
from penstock.plan.window_kinds import RowWindow, SlideByTuple
from penstock.sql.binder.expressions import ExpressionBinder
from penstock.sql.binder.literals import span_of
from penstock.sql.binder.operators import refuse_nested
from penstock.sql.binder.scope import Scope
from penstock.sql.binder.select_items import WINDOW_COLUMNS
from penstock.sql.binder.windows import BoundWindow, WindowColumns
from penstock.sql.syntax import Select, SelectItem

SET = "grouping set"  # the key that tells sets apart


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """The keys of a grouping, and the sets of them, by position."""

    keys: tuple[Named, ...]
    sets: tuple[frozenset[int], ...]

    def grouping(self, arguments: Sequence[Expression], span: Span | None) -> Expression:
        """Bind grouping(a, b): a bit for each key, the last one for the last, that is 1 where rows
        are not grouped by it."""
        places = []
        for argument in arguments:
            found = [n for n, key in enumerate(self.keys) if key.expression == argument]
            if not found:
                raise BindError("grouping takes keys of GROUP BY", span=argument.span or span)
            places.append(found[0])
        values = [
            sum((place not in own) << bit for bit, place in enumerate(reversed(places)))
            for own in self.sets
        ]
        if not self.is_several:
            return Literal(values[0], BIGINT, span=span)
        number = Column(SET, INT)
        branches = tuple(
            (Call("eq", (number, Literal(n, INT)), BOOLEAN), Literal(value, BIGINT))
            for n, value in enumerate(values)
        )
        return Case(branches, Literal(None, BIGINT), BIGINT, span=span)

    @property
    def is_several(self) -> bool:
        return len(self.sets) > 1


class Aggregation(NamedTuple):
    """An aggregation before it is a plan node: input, keys, aggregates, and the window."""

    node: Node
    keys: list[Named]
    aggregates: list[NamedAggregate]
    window: BoundWindow | None


def in_sets(given: Aggregation, sets: GroupingSets, span: Span) -> Aggregation:
    """Spread the aggregation over several grouping sets, by copies of its tuples.

    before: aggregates BY GROUPING SETS ((a, b), (a)) over s
    after:  aggregates BY a, b, set over Union of (s, 0 AS set) and (s, NULL AS b, 1 AS set)
    """
    if not sets.is_several:
        return given
    node, bound = given.node, given.window
    if bound is not None and isinstance(bound.window, RowWindow | SlideByTuple):
        raise BindError(
            "a window that counts rows would count them once for every grouping set",
            span=span,
            expected="a window over values",
        )
    taken: set[str] = set()
    names: dict[Column, str] = {}
    for field in node.schema:
        names[Column.of(field)] = name = free_name(field.name, taken)
        taken.add(name)
    key_names = []
    for number, _ in enumerate(sets.keys):
        key_names.append(free_name(f"key {number}", taken))
        taken.add(key_names[-1])
    number_name = free_name(SET, taken)
    copies = []
    for number, own in enumerate(sets.sets):
        columns = [Named(name, column) for column, name in names.items()]
        for place, (key, name) in enumerate(zip(sets.keys, key_names, strict=True)):
            kept = place in own
            value = key.expression if kept else Literal(None, key.expression.type)
            columns.append(Named(name, value))
        columns.append(Named(number_name, Literal(number, INT)))
        copies.append(Project(node, tuple(columns)))
    made = Union(tuple(copies), None)
    columns_of_copies = {column: Column(name, column.type) for column, name in names.items()}

    def over(expression: Expression) -> Expression:
        return substituted(expression, lambda column: columns_of_copies[replace(column, span=None)])

    keys = [
        Named(key.name, Column(name, key.expression.type))
        for key, name in zip(sets.keys, key_names, strict=True)
    ]
    keys.append(Named(SET, Column(number_name, INT)))
    attribute = None if bound is None else bound.attribute
    if bound is not None and attribute is not None:
        bound = bound._replace(attribute=over(attribute))
    return Aggregation(made, keys, [_over(each, over) for each in given.aggregates], bound)


def _over(each: NamedAggregate, over: Callable[[Expression], Expression]) -> NamedAggregate:
    call = each.call
    arguments = tuple(over(argument) for argument in call.arguments)
    where = None if call.where is None else over(call.where)
    return replace(each, call=replace(call, arguments=arguments, where=where))


# array_agg(x ORDER BY y DESC): keys as arguments that are never NULL, and their directions.

_TEXTS = ("string_agg", "listagg", "group_concat")
_ENDS = {"first": 1, "first_value": 1, "any_value": 1, "last": -1, "last_value": -1}
_LARGEST = ("topk", "topkdistinct")
_LEAST: dict[Kind, Any] = {Kind.STRING: "", Kind.BINARY: b"", Kind.BOOLEAN: False}
_LEAST |= {Kind.DOUBLE: 0.0, Kind.DECIMAL: Decimal(0)}


class Taken(NamedTuple):
    """Parts of a call: the arguments of an aggregate, whether they are DISTINCT, and the keys of
    its ORDER BY."""

    values: list[exp.Expr]
    distinct: bool
    keys: list[exp.Expr]

    @property
    def by_value(self) -> bool:
        """Whether the only key of ORDER BY is the first argument."""
        return len(self.keys) == 1 and bool(self.values) and self.keys[0].this == self.values[0]


def taken_apart(called: exp.Anonymous) -> Taken:
    """Split a call into its parts. DISTINCT may be below ORDER BY, with all arguments in it, or
    before the first of them."""
    values, keys = list(called.expressions), []
    if values and isinstance(values[-1], exp.Order):
        keys = list(values[-1].expressions)
        values[-1] = values[-1].this
    distinct = bool(values) and isinstance(values[0], exp.Distinct)
    if distinct:
        values = [*values[0].expressions, *values[1:]]
    return Taken(values, distinct, keys)


def by_a_list(syntax: exp.Expr) -> exp.Expr | None:
    """Aggregates in the order of something else than they have of their own.

    before: string_agg(s, ',' ORDER BY n), first(x ORDER BY y), listagg(s) WITHIN GROUP (ORDER BY n)
    after:  array_join(array_agg(s ORDER BY n), ','), element_at(array_agg(x ORDER BY y), 1)
    """
    where = syntax.expression if isinstance(syntax, exp.Filter) else None
    called = syntax.this if where is not None else syntax
    behind: list[exp.Expr] = []
    if isinstance(called, exp.WithinGroup):
        behind, called = list(called.expression.expressions), called.this
    name = str(called.name).lower()
    if not isinstance(called, exp.Anonymous) or name not in (*_ENDS, *_TEXTS, *_LARGEST):
        return None
    taken = taken_apart(called)
    if name in _LARGEST:
        taken = _largest(name, called, taken)
    taken = taken._replace(keys=behind or taken.keys)
    if not taken.keys or len(taken.values) != (1 if name in _ENDS else 2):
        return None
    if name in _TEXTS and taken.by_value and not taken.keys[0].args.get("desc"):
        return None
    value = taken.values[0]
    if taken.distinct:
        value = exp.Distinct(expressions=[value])
    listed: exp.Expr = exp.Anonymous(
        this="array_agg", expressions=[exp.Order(this=value, expressions=taken.keys)]
    )
    listed.meta.update(called.meta)
    if where is not None:
        listed = exp.Filter(this=listed, expression=where)
        listed.meta.update(syntax.meta)
    if name in _TEXTS:
        made = exp.Anonymous(this="array_join", expressions=[listed, taken.values[1]])
    elif name in _LARGEST:
        parts = [listed, exp.Literal.number(1), taken.values[1]]
        made = exp.Anonymous(this="array_slice", expressions=parts)
    else:
        place = exp.Literal.number(_ENDS[name])
        made = exp.Anonymous(this="element_at", expressions=[listed, place])
    made.meta.update(syntax.meta)
    return made


def _largest(name: str, called: exp.Anonymous, taken: Taken) -> Taken:
    """Rewrite ksqlDB's topk(x, 3): the three largest values, the largest first."""
    count = taken.values[1] if len(taken.values) == 2 else None
    known = isinstance(count, exp.Literal) and count.name.isdigit() and int(count.name) > 0
    if not known or taken.keys or taken.distinct:
        raise BindError(
            f"{name} takes a value and how many of the largest are wanted",
            span=span_of(called),
            expected=f"{name}(x, 3)",
            hint="top_k(x, 3) for the most frequent",
        )
    key = exp.Ordered(this=taken.values[0], desc=True, nulls_first=True)
    return Taken(taken.values, name == "topkdistinct", [key])


def one_value(called: exp.Anonymous) -> Taken:
    """Split a call of array_agg or a similar aggregate, which takes one value."""
    taken = taken_apart(called)
    if len(taken.values) != 1:
        raise BindError(
            f"{called.name} takes one value", span=span_of(called), hint="array_agg(x ORDER BY y)"
        )
    if taken.distinct and taken.keys and not taken.by_value:
        raise BindError(
            f"{called.name} of DISTINCT values is in the order of the values",
            span=span_of(called),
            expected="ORDER BY the value itself",
        )
    return taken


def order_arguments(keys: list[exp.Expr], tuples: ExpressionBinder) -> list[Expression]:
    """Arguments for ORDER BY: for every key whether it is NULL, and its value; then a letter for
    each of these."""
    made: list[Expression] = []
    directions = ""
    for key in keys:
        bound = tuples.bind(key.this)
        refuse_nested(bound.type, "values cannot be put in the order of", span_of(key))
        if bound.type.kind is Kind.NULL:
            continue
        directions += "d" if key.args.get("nulls_first") else "a"
        directions += "d" if key.args.get("desc") else "a"
        made += [Call("is_null", (bound,), BOOLEAN), _known(bound)]
    return [*made, Literal(directions, STRING)] if made else []


def _known(key: Expression) -> Expression:
    return Call("coalesce", (key, Literal(_least(key.type), key.type)), key.type)


def _least(sql_type: Type) -> Any:
    return _LEAST.get(sql_type.kind, 0)


# Expressions over groups: the parts of SELECT and HAVING around aggregates.

_GROUPING = ("grouping", "grouping_id")
_OF_ANY_TYPE = ("count", "array_agg")  # they look at no value, or put it into the result


# Those whose value depends on an order; string_agg is by value, the others by position.
_IN_AN_ORDER = ("first", "last", "string_agg")
_LISTING = ("array_agg", "collect_list", "collect_set", "list")


def has_aggregate(syntax: exp.Expr, catalog: Catalog) -> bool:
    """Whether an expression folds rows; an aggregate with OVER does not."""
    over = {id(called_over(node)) for node in syntax.find_all(exp.Window)}
    return any(
        isinstance(node, exp.Anonymous)
        and id(node) not in over
        and catalog.aggregate(str(node.name)) is not None
        for node in syntax.walk()
    )


def called_over(window: exp.Window) -> exp.Expr:
    """Return the function before OVER, without FILTER, WITHIN GROUP and treatments of NULLs."""
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
        """Column of the key that equals the whole expression, or None."""
        if has_aggregate(syntax, self.catalog):
            return None
        try:
            bound = self.tuples.bind(syntax)
        except BindError:
            return None  # a window column, or an error that is reported where it stands
        return self._key_of(bound)

    def of_key(self, key: Expression) -> Column:
        """Column of a key, which is given over tuples."""
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
        """Longest prefix of a chain of operators that is a key: GROUP BY f * 2 knows f * 2 + 1."""
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
        """Bind the condition of HAVING, which may use the aliases of SELECT items."""
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
    """Bind an aggregate, with arguments bound by `tuples`."""
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
    """Count the pairs in which both values are known."""
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
    """Drop an ORDER BY that has no effect, because most aggregates are the same in every order.
    Returns the arguments, and whether they are DISTINCT."""
    values, distinct, keys = taken = taken_apart(syntax)
    for key in keys:
        tuples.bind(key.this)
    counts = function.name in _IN_AN_ORDER or AGGREGATES.get(function.name) is not function
    if keys and counts and not (taken.by_value and not keys[0].args.get("desc")):
        raise _own_order(syntax, syntax)
    return values, distinct


def _value(syntax: exp.Anonymous) -> exp.Expr | None:
    """Return the first argument, below DISTINCT if it is there."""
    first = next(iter(syntax.expressions), None)
    return first.expressions[0] if isinstance(first, exp.Distinct) else first


def _own_order(called: exp.Anonymous, syntax: exp.Expr) -> BindError:
    return BindError(
        f"{called.name} takes values in their own order, from the least to the greatest",
        span=span_of(syntax),
        expected="ORDER BY the value itself",
    )


def _check_constants(function: AggregateFunction, arguments: list[Expression]) -> None:
    """Check that shares and counts are constants in their ranges."""
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


# GROUP BY ALL, as in Spark and DuckDB: every SELECT item without an aggregate is a key.


def by_all_keys(select: Select, catalog: Catalog) -> Select:
    """
    before: SELECT k, upper(s), count(*) FROM s GROUP BY ALL
    after:  SELECT k, upper(s), count(*) FROM s GROUP BY k, upper(s)
    """
    match select.group_by:
        case (exp.Column(this=exp.Identifier() as word),) if _is_all(word):
            pass
        case _:
            return select
    keys = tuple(
        item.expression
        for item in select.items
        if not has_aggregate(item.expression, catalog)
        and item.expression.name.lower() not in WINDOW_COLUMNS
        and not isinstance(item.expression, exp.Star)
    )
    return replace(select, group_by=keys)


def _is_all(word: exp.Identifier) -> bool:
    return word.name.upper() == "ALL" and not word.args.get("quoted")
