"""The reference evaluator: scalar expressions on one tuple, with SQL's NULLs and three-valued
logic; and the bounds on expressions that rise with progressing columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, TypeAlias

from penstock.errors import RunError, shortened
from penstock.expressions.growth import AT_MOST, GROWING
from penstock.functions.casts import cast, checked
from penstock.functions.nested import map_with
from penstock.functions.scalar_functions import ARITHMETIC, COMPARE, FUNCTIONS, compare
from penstock.functions.times import TIME_FUNCTIONS, add_months, add_months_to_time
from penstock.functions.user_functions import UserFunction
from penstock.model.durations import DAY
from penstock.model.ordering import sort_key
from penstock.model.ticks import Domain
from penstock.model.types import EXACT, INT64_MAX, INT64_MIN, NESTED, Field, Kind, Schema, Type
from penstock.model.value_limits import check_size, size_of, size_of_items
from penstock.model.values import to_arrow, to_python
from penstock.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    TableValue,
    rising_operands,
    walk,
    written,
)
from penstock.plan.properties import with_children

Evaluator = Callable[[tuple[Any, ...]], Any]


def evaluator(expression: Expression, schema: Schema) -> Evaluator:
    """Compile an expression into a function from a tuple of the schema to its value."""
    evaluate = _evaluator(expression, schema)
    if isinstance(expression, Column | Literal):  # which always have a value
        return evaluate

    def explained(values: tuple[Any, ...]) -> Any:
        try:
            return evaluate(values)
        except RunError as error:
            error.span = error.span or expression.span
            error.hint = error.hint or f"look at {shortened(str(expression))}"
            raise

    return explained


def _evaluator(expression: Expression, schema: Schema) -> Evaluator:
    match expression:
        case Column():
            return itemgetter(expression.position(schema))
        case Literal():
            value = expression.value
            return lambda _: value
        case Cast(operand, wanted, tries):
            inner = _evaluator(operand, schema)
            return lambda values: cast(inner(values), operand.type, wanted, tries)
        case Case():
            return _case(expression, schema)
        case Call():
            return _call(expression, [_evaluator(each, schema) for each in expression.arguments])
        case TableValue():
            raise AssertionError(f"{expression} stands beside tuples by now")


def _case(expression: Case, schema: Schema) -> Evaluator:
    branches = [
        (_evaluator(condition, schema), _evaluator(value, schema))
        for condition, value in expression.branches
    ]
    otherwise = _evaluator(expression.otherwise, schema)

    def choose(values: tuple[Any, ...]) -> Any:
        for condition, value in branches:
            if condition(values) is True:
                return value(values)
        return otherwise(values)

    return choose


def _call(call: Call, arguments: list[Evaluator]) -> Evaluator:
    name = call.function
    if call.user is not None:
        return _of_user(call, call.user, arguments)
    if name in ("array", "struct", "map"):
        return _collection(call, arguments)
    if name in _SPECIAL:
        special = _SPECIAL[name]
        return lambda values: special([each(values) for each in arguments])
    if name == "if":
        condition, yes, no = arguments
        return lambda values: yes(values) if condition(values) is True else no(values)
    if name in COMPARE:
        return _comparison(COMPARE[name], arguments)
    if name in ARITHMETIC:
        return _arithmetic(name, call.type, arguments)
    if name == "add_months":
        function = add_months if call.type.kind is Kind.DATE else add_months_to_time
    else:
        function = _on_dates(call) if name in TIME_FUNCTIONS else FUNCTIONS[name]

    def strict(values: tuple[Any, ...]) -> Any:
        given = [each(values) for each in arguments]
        if any(value is None for value in given):
            return None
        return checked(function(*given), call.type)

    if name not in AT_MOST and name not in GROWING:
        return strict
    types = [each.type for each in call.arguments]
    at_most = AT_MOST.get(name)

    def bounded(values: tuple[Any, ...]) -> Any:
        given = [each(values) for each in arguments]
        if any(value is None for value in given):
            return None
        if at_most is not None:
            check_size(at_most(given, types))
        made = function(*given)
        if name in GROWING:
            check_size(size_of(made, call.type))
        return made

    return bounded


def _collection(call: Call, arguments: list[Evaluator]) -> Evaluator:
    make, types = _SPECIAL[call.function], [each.type for each in call.arguments]

    def evaluate(values: tuple[Any, ...]) -> Any:
        given = [each(values) for each in arguments]
        check_size(size_of_items(given, types))
        return make(given)

    return evaluate


def _comparison(holds: Callable[[Any, Any], bool], arguments: list[Evaluator]) -> Evaluator:
    left, right = arguments

    def evaluate(values: tuple[Any, ...]) -> bool | None:
        one, other = left(values), right(values)
        return None if one is None or other is None else holds(one, other)

    return evaluate


def _arithmetic(name: str, result: Type, arguments: list[Evaluator]) -> Evaluator:
    """Evaluator of arithmetic: NULL if an operand is, NULL for division by zero; a result that
    does not fit its type is an error.
    """
    compute, divides = ARITHMETIC[name], name in ("divide", "div", "mod")
    if len(arguments) == 1:
        (only,) = arguments

        def of_one(values: tuple[Any, ...]) -> Any:
            value = only(values)
            return None if value is None else checked(compute(value), result)

        return of_one
    left, right = arguments

    def of_two(values: tuple[Any, ...]) -> Any:
        one, other = left(values), right(values)
        if one is None or other is None or (divides and other == 0):
            return None
        return checked(compute(one, other), result)

    return of_two


def _of_user(call: Call, function: UserFunction, arguments: list[Evaluator]) -> Evaluator:
    """Evaluator of a user-defined function, which gets columns of one row."""

    def evaluate(values: tuple[Any, ...]) -> Any:
        columns = [
            to_arrow([each(values)], argument.type)
            for each, argument in zip(arguments, call.arguments, strict=True)
        ]
        return to_python(function.column(columns, 1), call.type)[0]

    return evaluate


def _on_dates(call: Call) -> Callable[..., Any]:
    """Function on times for the arguments of a call: a DATE is passed as its midnight."""
    function = TIME_FUNCTIONS[call.function]
    if call.arguments[-1].type.kind is not Kind.DATE:
        return function
    if call.function == "date_trunc":
        return lambda unit, days: function(unit, days * DAY) // DAY
    return lambda *given: function(*given[:-1], given[-1] * DAY)


# --- functions that define their results for NULL themselves -------------------------------------


def _and(given: list[Any]) -> bool | None:
    if any(value is False for value in given):
        return False
    return None if any(value is None for value in given) else True


def _or(given: list[Any]) -> bool | None:
    if any(value is True for value in given):
        return True
    return None if any(value is None for value in given) else False


def _not(given: list[Any]) -> bool | None:
    return None if given[0] is None else not given[0]


def _in(given: list[Any]) -> bool | None:
    needle, *haystack = given
    return _or([compare("eq", needle, value) for value in haystack])


def _is_distinct(given: list[Any]) -> bool:
    left, right = given
    if left is None or right is None:
        return (left is None) != (right is None)
    return not compare("eq", left, right)


def _nullif(given: list[Any]) -> Any:
    return None if compare("eq", *given) is True else given[0]


def _present(given: list[Any]) -> list[Any]:
    return [value for value in given if value is not None]


_SPECIAL: dict[str, Callable[[list[Any]], Any]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "in": _in,
    "is_null": lambda given: given[0] is None,
    "is_distinct": _is_distinct,
    "coalesce": lambda given: next(iter(_present(given)), None),
    "nullif": _nullif,
    "array": tuple,
    "struct": tuple,
    "map": map_with,
    "greatest": lambda given: max(_present(given), default=None, key=sort_key),
    "least": lambda given: min(_present(given), default=None, key=sort_key),
}


# The bound on an expression that rises with progressing columns, from the bounds on those.
#
# A bound is no tuple, so it may lie where the expression has no value: a clock may promise more
# than an INT can hold, though no tuple ever came so far.  There the bound stays at the end of the
# range of the type, which is always true: every tuple that comes has a value of that type.

Bounding: TypeAlias = Callable[[Sequence[Any]], Any]


def bounding(expression: Expression, columns: Sequence[Column]) -> Bounding:
    """Compile an expression into a function from values of the columns, which need not fit their
    types, to the value that the expression does not fall below while no column falls below its
    own.

    >>> from penstock.model.types import BIGINT, INT
    >>> t = Column("t", BIGINT)
    >>> [bounding(Cast(t, INT), [t])([value]) for value in (-(2**70), 7, 2**40)]
    [-2147483648, 7, 2147483647]
    """
    return _fitting(promised(expression), columns)


def reached(expression: Expression, columns: Sequence[Column]) -> Bounding:
    """Compile an expression into a function from the highest values of the columns to an upper
    bound on the expression so far.
    """
    return _fitting(reaching(expression), columns)


def _fitting(expression: Expression, columns: Sequence[Column]) -> Bounding:
    domain, bound = Domain(expression.type), _bounding(expression, columns)

    def with_tick(values: Sequence[Any]) -> Any:
        value = bound(values)
        tick = domain.tick(value)
        return value if INT64_MIN <= tick <= INT64_MAX else domain.value(_nearest(tick))

    return with_tick


def promised(expression: Expression) -> Expression:
    """Lower bound on an expression, as an expression of the bounds of its columns.

    before: promised_as(t + 10, t)
    after:  t

    So copies of a tuple all promise what the earliest copy does: one that is too late for a window
    is not late for those that follow.

    before: at_time_zone(t, 'Europe/Berlin')
    after:  lowest_at_time_zone(t, 'Europe/Berlin')

    So no local time falls below its bound when clocks are put back.
    """
    match expression:
        case Call("promised_as", (_, lower)):
            return promised(lower)
        case Call("at_time_zone", (inner, zone)):
            return Call("lowest_at_time_zone", (promised(inner), zone), expression.type)
    return with_children(expression, promised)


def reaching(expression: Expression) -> Expression:
    """Upper bound on an expression, as an expression of the highest values of its columns.

    before: at_time_zone(t, 'Europe/Berlin')
    after:  highest_at_time_zone(t, 'Europe/Berlin')
    """
    match expression:
        case Call("promised_as", (_, lower)):
            return reaching(lower)
        case Call("at_time_zone", (inner, zone)):
            return Call("highest_at_time_zone", (reaching(inner), zone), expression.type)
    return with_children(expression, reaching)


def shift_of(expression: Expression) -> int | None:
    """Distance in ticks of the bound on an expression above that on its only column, if it is
    constant; otherwise None.
    """
    if not isinstance(expression, Call) or expression.function not in ("add", "subtract"):
        return None
    match expression.arguments:
        case (Column(type=column_type), Literal(value=int() as by)):
            if column_type.kind is Kind.BIGINT and expression.type.kind is Kind.BIGINT:
                return by if expression.function == "add" else -by
    return None


def _nearest(tick: int) -> int:
    return min(max(tick, INT64_MIN), INT64_MAX)


def _bounding(expression: Expression, columns: Sequence[Column]) -> Bounding:
    if isinstance(expression, Column):
        place = list(columns).index(expression)
        low, high = _limits(expression.type)
        return lambda values: min(max(values[place], low), high)
    operands = rising_operands(expression)
    inner = [_bounding(operand, columns) for operand in operands]
    step = _step(expression, operands)
    return lambda values: step([each(values) for each in inner])


def _step(expression: Expression, operands: Sequence[Expression]) -> Bounding:
    """The expression as a function of its operands alone."""
    assert isinstance(expression, Call | Cast)
    fields = [Field(f"operand {i}", each.type) for i, each in enumerate(operands)]
    names = {id(each): Column.of(field) for each, field in zip(operands, fields, strict=True)}
    if isinstance(expression, Cast):
        of_operands: Expression = Cast(names[id(expression.operand)], expression.type)
    else:
        arguments = tuple(names.get(id(each), each) for each in expression.arguments)
        of_operands = Call(expression.function, arguments, expression.type)
    evaluate = evaluator(of_operands, Schema(tuple(fields)))
    low, high = _limits(expression.type)

    def step(values: Sequence[Any]) -> Any:
        try:
            return evaluate(tuple(values))
        except RunError:
            return high if _upward(expression, operands[0], values[0]) else low

    return step


def _upward(expression: Expression, operand: Expression, value: Any) -> bool:
    """Whether the expression overflows its type upwards. A sum does so in the direction of its
    constant, all others by making a number of the same sign too large.
    """
    if isinstance(expression, Call) and expression.function in ("add", "subtract"):
        constant = next(written(each) for each in expression.arguments if each is not operand)
        if isinstance(constant, int | float | Decimal):
            return (constant > 0) == (expression.function == "add")
    return bool(value > 0)


def _limits(sql_type: Type) -> tuple[Any, Any]:
    """Lowest and highest value of a type."""
    match sql_type.kind:
        case Kind.DECIMAL:
            most = Domain(sql_type).value(10**sql_type.precision - 1)
            return EXACT.minus(most), most
        case Kind.INT | Kind.DATE:
            return -(2**31), 2**31 - 1
        case _:
            return INT64_MIN, INT64_MAX


# Expressions on single tuples: plain values, by the evaluator that kernels agree with.
#
# For one tuple, that takes a fraction of the time of Arrow's kernels.

_IN_COLUMNS = (Kind.DECIMAL, *NESTED)


def compile_alone(expression: Expression, schema: Schema) -> Evaluator | None:
    """Compile an expression into a function from a tuple of the schema to its value.

    None where columns are needed: decimals have two zeros in Python and one in Arrow, which shows
    in texts, and user-defined functions take columns.
    """
    if not isinstance(expression, Column) and any(map(_needs_columns, walk(expression))):
        return None
    return evaluator(expression, schema)


def _needs_columns(expression: Expression) -> bool:
    by_user = isinstance(expression, Call) and expression.user is not None
    return by_user or expression.type.kind in _IN_COLUMNS
