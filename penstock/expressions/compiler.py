"""The compiler: from a bound expression to a function over record batches.

>>> from penstock.model.types import Field
>>> from penstock.model.types import BIGINT
>>> schema = Schema((Field("a", BIGINT), Field("b", BIGINT)))
>>> a, b = (Column.of(field) for field in schema)
>>> total = compile_expression(Call("add", (a, b), BIGINT), schema)
>>> total(pa.record_batch({"a": [1, None], "b": [10, 20]})).to_pylist()
[11, None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.arithmetic import ARITHMETIC
from penstock.expressions.columns import (
    FAILURES,
    Builder,
    Compiled,
    Kernel,
    all_null,
    by_rows,
    constant,
    evaluate_rows,
    length,
    scalar_of,
    true_only,
)
from penstock.expressions.conditions import CHOICES, COMPARISONS, WITH_NULLS, choose
from penstock.expressions.conversions import cast_kernel
from penstock.expressions.growth import may_grow
from penstock.expressions.nested_kernels import ARRAY_FUNCTIONS, ARRAYS, NESTED
from penstock.expressions.number_kernels import BITS, NUMBERS, TRIGONOMETRY
from penstock.expressions.pattern_kernels import PATTERNS, REGULAR_EXPRESSIONS
from penstock.expressions.sizes import TooMuchAtOnceError, begin, bounded, in_halves
from penstock.expressions.text_kernels import BY_VALUE, TEXTS
from penstock.expressions.time_format_kernels import TIME_FORMATS
from penstock.expressions.time_kernels import MONTHS, TIMES
from penstock.functions.user_functions import UserFunction
from penstock.model.types import Kind, Schema
from penstock.plan.expressions import Call, Case, Cast, Column, Expression, Literal, TableValue


def user_kernel(function: UserFunction) -> Kernel:
    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        count = length(data)
        columns = [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]
        return function.column(columns, count)

    return kernel


# Functions that give NULL for a NULL argument.
_STRICT: dict[str, Builder] = {
    **COMPARISONS,
    **ARITHMETIC,
    **NUMBERS,
    **TEXTS,
    **PATTERNS,
    **REGULAR_EXPRESSIONS,
    **NESTED,
    **ARRAY_FUNCTIONS,
    **BITS,
    **TRIGONOMETRY,
    **BY_VALUE,
    **MONTHS,
    **TIMES,
    **TIME_FORMATS,
}
_WITH_NULLS: dict[str, Builder] = {**WITH_NULLS, **CHOICES, **ARRAYS}


def compile_expression(
    expression: Expression, schema: Schema
) -> Callable[[pa.RecordBatch], pa.Array]:
    """Compile an expression into a function from a batch to the column of its values.

    Columns are found by their position in the schema; a row that has no value is a `RunError`.
    """
    node = _node(_compile(expression, schema))
    grows = may_grow(expression)

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        try:
            if grows:
                begin()
            return node(batch)
        except TooMuchAtOnceError:
            return in_halves(evaluate, batch)
        except FAILURES:
            columns = batch.columns[: len(schema)]  # columns of bounds may follow them
            return evaluate_rows(expression, schema, columns, batch.num_rows)

    return evaluate


def compile_predicate(
    expression: Expression, schema: Schema
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Compile an expression into a mask of the rows for which it is true: not false, and not NULL
    either.
    """
    evaluate = compile_expression(expression, schema)
    return lambda batch: true_only(evaluate(batch))


def _compile(expression: Expression, schema: Schema) -> Compiled | Literal:
    """Compile to a function of a batch, or to a literal if the value is the same for every row."""
    match expression:
        case Literal():
            return expression
        case Column():
            if expression.type.kind is Kind.NULL:
                return Literal(None, expression.type)
            position = expression.position(schema)
            return lambda batch: batch.column(position)
        case Case(branches, otherwise):
            return _case(expression, branches, otherwise, schema)
        case Call("if", (condition, yes, no)):
            return _case(expression, ((condition, yes),), no, schema)
        case Cast(operand):
            return _apply(expression, [operand], schema)
        case Call(_, arguments):
            return _apply(expression, arguments, schema)
        case TableValue():
            raise AssertionError(f"{expression} stands beside tuples by now")


def _apply(
    expression: Call | Cast, operands: Sequence[Expression], schema: Schema
) -> Compiled | Literal:
    compiled = [_compile(operand, schema) for operand in operands]
    folded = tuple(
        each if isinstance(each, Literal) else operand
        for each, operand in zip(compiled, operands, strict=True)
    )
    if isinstance(expression, Call):
        expression = replace(expression, arguments=folded)
    else:
        expression = replace(expression, operand=folded[0])
    if all(isinstance(each, Literal) for each in compiled):
        return _fold(expression)
    literals = [each if isinstance(each, Literal) else None for each in compiled]
    kernel = _kernel(expression, literals)
    if isinstance(expression, Call):
        kernel = bounded(expression, kernel)
    return _joined(kernel, compiled)


def _fold(expression: Expression) -> Compiled | Literal:
    """Evaluate an expression of literals. If it has no value, the error is that of the first row
    that evaluates it, so there is none if no row does.
    """
    try:
        return Literal(constant(expression), expression.type, span=expression.span)
    except RunError as error:
        failure = error
    nothing = pa.nulls(0, expression.type.arrow)

    def fail(batch: pa.RecordBatch) -> pa.Array:
        if batch.num_rows:
            raise RunError(failure.message)
        return nothing

    return fail


def _kernel(expression: Call | Cast, literals: Sequence[Literal | None]) -> Kernel:
    if isinstance(expression, Cast):
        kernel = cast_kernel(expression)
    elif expression.user is not None:
        kernel = user_kernel(expression.user)
    elif expression.function in _WITH_NULLS:
        kernel = _WITH_NULLS[expression.function](expression, literals)
    elif any(literal is not None and literal.value is None for literal in literals):
        kernel = all_null(expression.type)
    else:
        kernel = _STRICT[expression.function](expression, literals)
    return kernel or by_rows(expression)


def _joined(kernel: Kernel, operands: Sequence[Compiled | Literal]) -> Compiled:
    """Node that applies the kernel to the values of the operands."""
    match [scalar_of(each) if isinstance(each, Literal) else each for each in operands]:
        case [only]:
            return lambda batch: kernel(only(batch))
        case [left, pa.Scalar() as right]:
            return lambda batch: kernel(left(batch), right)
        case [pa.Scalar() as left, right]:
            return lambda batch: kernel(left, right(batch))
        case [left, right]:
            return lambda batch: kernel(left(batch), right(batch))
        case many:
            return lambda batch: kernel(
                *(each if isinstance(each, pa.Scalar) else each(batch) for each in many)
            )


def _case(
    expression: Call | Case,
    branches: Sequence[tuple[Expression, Expression]],
    otherwise: Expression,
    schema: Schema,
) -> Compiled | Literal:
    compiled = []
    for condition, value in branches:
        holds = _compile(condition, schema)
        if isinstance(holds, Literal):
            if not holds.value:
                continue
            otherwise = value
            break
        compiled.append((holds, _operand(_compile(value, schema))))
    last = _compile(otherwise, schema)
    if not compiled:
        return last
    return choose(compiled, _operand(last), expression.type)


def _operand(compiled: Compiled | Literal) -> Compiled | pa.Scalar:
    return scalar_of(compiled) if isinstance(compiled, Literal) else compiled


def _node(compiled: Compiled | Literal) -> Compiled:
    """Make a column of a literal; only here, where nothing else is left to be folded."""
    if not isinstance(compiled, Literal):
        return compiled
    value = scalar_of(compiled)
    return lambda batch: pa.repeat(value, batch.num_rows)
