"""Scalar expressions on one tuple, with SQL's NULLs and three truth values."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from penstock.errors import RunError, shortened
from penstock.functions.user_functions import UserFunction
from penstock.model.duration import DAY
from penstock.model.plain_values import to_arrow, to_python
from penstock.model.schema import Schema
from penstock.model.types import Kind, Type
from penstock.model.value_limits import check_size, size_of, size_of_items
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, Literal, TableValue
from penstock.scalars.casts import cast, checked
from penstock.scalars.functions import ARITHMETIC, COMPARE, FUNCTIONS, compare
from penstock.scalars.growth import AT_MOST, GROWING
from penstock.scalars.months import add_months, add_months_to_time
from penstock.scalars.nested import map_with
from penstock.scalars.ordering import sort_key
from penstock.scalars.times import TIME_FUNCTIONS

Evaluator = Callable[[tuple[Any, ...]], Any]


def evaluator(expression: Expression, schema: Schema) -> Evaluator:
    """A function from a tuple of the schema to the value of the expression."""
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
    """NULL if an operand is, NULL for division by zero; what does not fit its type is an error."""
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
    """A column of one row."""

    def evaluate(values: tuple[Any, ...]) -> Any:
        columns = [
            to_arrow([each(values)], argument.type)
            for each, argument in zip(arguments, call.arguments, strict=True)
        ]
        return to_python(function.column(columns, 1), call.type)[0]

    return evaluate


def _on_dates(call: Call) -> Callable[..., Any]:
    """Functions on times see a DATE as its midnight."""
    function = TIME_FUNCTIONS[call.function]
    if call.arguments[-1].type.kind is not Kind.DATE:
        return function
    if call.function == "date_trunc":
        return lambda unit, days: function(unit, days * DAY) // DAY
    return lambda *given: function(*given[:-1], given[-1] * DAY)


# --- functions that say something about NULL themselves ------------------------------------------


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
