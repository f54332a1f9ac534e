"""Compiled expressions and kernels, conversions between Arrow and NumPy, and the evaluation row by
row.

A kernel either gives exactly the result of the reference evaluator, or raises one of `FAILURES`.
It need not tell which tuple is to blame: the caller that catches the failure asks the reference
evaluator (`evaluate_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.evaluation import evaluator
from penstock.model.arrays import Ints, Mask
from penstock.model.types import NESTED, Field, Kind, Schema, Type
from penstock.model.value_limits import check_together, size_of
from penstock.model.values import to_arrow, to_python
from penstock.plan.expressions import Call, Cast, Column, Expression, Literal

FAILURES = (pa.ArrowInvalid, RunError)

Compiled: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
# The arguments come as columns, constants as scalars; at least one of them is a column.
Kernel: TypeAlias = Callable[..., pa.Array]
# Gets the call and, for each argument, the literal it was folded to, or None.  Unless it is meant
# for them, it never gets a NULL literal.  No kernel: the call has to go row by row.
Builder: TypeAlias = Callable[[Call, Sequence[Literal | None]], Kernel | None]


def arrow(name: str, options: pc.FunctionOptions | None = None) -> Kernel:
    """Arrow function of that name; `call` has less overhead than the functions of `pc`.

    >>> arrow("add")(pa.array([1, 2]), pa.scalar(3)).to_pylist()
    [4, 5]
    """
    call = pc.get_function(name).call
    if options is None:
        return lambda *data: call(data)
    return lambda *data: call(data, options)


def always(kernel: Kernel) -> Builder:
    """Builder that gives this kernel for every call."""
    return lambda _call, _literals: kernel


def row_by_row(_call: Call, _literals: Sequence[Literal | None]) -> Kernel | None:
    """No kernel: nothing computes it for whole columns."""
    return None


def scalar_of(literal: Literal) -> pa.Scalar:
    return to_arrow([literal.value], literal.type)[0]


def zero_of(sql_type: Type) -> pa.Scalar:
    return to_arrow([Decimal(0) if sql_type.kind is Kind.DECIMAL else 0], sql_type)[0]


def too_large(sql_type: Type) -> RunError:
    return RunError(f"a value is too large for {sql_type}")


def same(column: pa.Array, *_: pa.Scalar) -> pa.Array:
    """Kernel of functions that return their argument unchanged."""
    return column


def all_null(sql_type: Type) -> Kernel:
    """Kernel of calls that are always NULL."""
    arrow_type = sql_type.arrow

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        return pa.nulls(length(data), arrow_type)

    return kernel


def length(data: Sequence[pa.Array | pa.Scalar]) -> int:
    """Number of rows that a kernel is called for."""
    return next(len(each) for each in data if isinstance(each, pa.Array))


# Between Arrow columns and NumPy values, without copying what can be shared.
#
# Values under NULLs are arbitrary: kernels may compute with them, but results must not depend on
# them.

_NUMPY: dict[Kind, np.dtype[Any]] = {
    Kind.INT: np.dtype(np.int32),
    Kind.BIGINT: np.dtype(np.int64),
    Kind.DOUBLE: np.dtype(np.float64),
    Kind.DATE: np.dtype(np.int32),
    Kind.TIMESTAMP: np.dtype(np.int64),
    Kind.INTERVAL: np.dtype(np.int64),
}
_INT64 = pa.int64()
_COALESCE = pc.get_function("coalesce").call
_FALSE = pa.scalar(False)
_FROM_BUFFERS = pa.Array.from_buffers
_IF_ELSE = pc.get_function("if_else").call


def values_of(column: pa.Array, sql_type: Type) -> npt.NDArray[Any]:
    """Values of a column of fixed width, in the width of its type; times as integers."""
    return fixed_width(column, _NUMPY[sql_type.kind])


def fixed_width(column: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    count = len(column)
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, count, column.offset * dtype.itemsize)


def ints_of(datum: pa.Array | pa.Scalar, sql_type: Type) -> Ints:
    """Convert whole numbers or times to int64; a scalar to an array without axes.

    >>> ints_of(pa.scalar(3, pa.date32()), Type(Kind.DATE))
    array(3)
    """
    if isinstance(datum, pa.Array):
        return values_of(datum, sql_type).astype(np.int64, copy=False)
    return np.asarray(datum.as_py() if sql_type.is_integer else datum.value, np.int64)


def as_int64(datum: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Reinterpret a TIMESTAMP or INTERVAL as its microseconds; a BIGINT stays unchanged."""
    if isinstance(datum, pa.Array):
        return datum.view(_INT64)
    return datum if datum.type == _INT64 else pa.scalar(datum.value, _INT64)


def column_of(values: npt.NDArray[Any], sql_type: Type, *inputs: pa.Array | pa.Scalar) -> pa.Array:
    """Make a column that is NULL where one of the inputs is.

    >>> from penstock.model.types import BIGINT
    >>> column_of(np.array([7, 8, 9]), BIGINT, pa.array([0, 1, None, 3])[1:]).to_pylist()
    [7, None, 9]
    """
    return from_values(values.astype(_NUMPY[sql_type.kind], copy=False), sql_type, *inputs)


def from_values(
    values: npt.NDArray[Any], sql_type: Type, *inputs: pa.Array | pa.Scalar
) -> pa.Array:
    """Make a column like `column_of`, of values that already have the width of the Arrow type."""
    buffers = [validity(*inputs), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(sql_type.arrow, len(values), buffers)


def of_64_bits(values: Ints, arrow_type: pa.DataType = _INT64) -> pa.Array:
    """Make a column of whole numbers or times without NULLs, which shares the values. `pa.array`
    would take several times as long to infer the type.

    >>> of_64_bits(np.array([7, 8])).to_pylist()
    [7, 8]
    """
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    return _FROM_BUFFERS(arrow_type, len(values), [None, pa.py_buffer(values)])


def narrowed(values: Ints, sql_type: Type, *inputs: pa.Array | pa.Scalar) -> pa.Array:
    """Make a column like `column_of`, for a type that may be too narrow for the values."""
    limits = np.iinfo(_NUMPY[sql_type.kind])
    if holds_somewhere((values < limits.min) | (values > limits.max), *inputs):
        raise too_large(sql_type)
    return column_of(values, sql_type, *inputs)


def validity(*inputs: pa.Array | pa.Scalar) -> pa.Buffer | None:
    """Bitmap of the rows where no input is NULL, or None if there are no NULLs."""
    with_nulls = [each for each in inputs if isinstance(each, pa.Array) and each.null_count]
    if not with_nulls:
        return None
    if len(with_nulls) == 1 and with_nulls[0].offset == 0:
        return with_nulls[0].buffers()[0]
    return bitmap(np.logical_and.reduce([present(each) for each in with_nulls]))


def bitmap(flags: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def present(column: pa.Array) -> Mask:
    """Mask of the rows that are not NULL."""
    return flags_of(column.is_valid())


def flags_of(column: pa.BooleanArray) -> Mask:
    """Mask of the rows that are true; NULL is not."""
    flags: Mask = true_only(column).to_numpy(zero_copy_only=False)
    return flags


def true_only(column: pa.BooleanArray) -> pa.BooleanArray:
    """Replace NULL by false."""
    return _COALESCE([column, _FALSE]) if column.null_count else column


def holds_somewhere(flags: Mask, *inputs: pa.Array | pa.Scalar) -> bool:
    """Whether a flag is set in a row where no input is NULL."""
    if not flags.any():
        return False
    for each in inputs:
        if isinstance(each, pa.Array) and each.null_count:
            flags = flags & present(each)
    return bool(flags.any())


def without(column: pa.Array, flags: Mask) -> pa.Array:
    """Replace values by NULL where a flag is set."""
    return _IF_ELSE([pa.array(flags), pa.scalar(None, column.type), column])


# The slow path: the reference evaluator, one row after the other.
#
# There are two reasons to take it.  A call has no columnar kernel (an unusual function, a pattern
# that is not a constant): then that call alone is evaluated row by row.  Or a kernel failed: then
# the whole expression is, because the reference evaluator knows the tuple to blame and the message;
# and if it does find values, they are the result.


def by_rows(expression: Call | Cast) -> Kernel:
    """Kernel of one call through the reference evaluator; arguments that are literals stay in
    place.

    >>> from penstock.model.types import STRING
    >>> by_rows(Call("reverse", (Column("t", STRING),), STRING))(pa.array(["ab", None])).to_pylist()
    ['ba', None]
    """
    operands = expression.arguments if isinstance(expression, Call) else (expression.operand,)
    inner: list[Expression] = []
    fields: list[Field] = []
    for operand in operands:
        if not isinstance(operand, Literal):
            fields.append(Field(f"argument {len(inner) + 1}", operand.type))
            operand = Column.of(fields[-1])
        inner.append(operand)
    schema = Schema(tuple(fields))
    if isinstance(expression, Call):
        over_columns: Expression = replace(expression, arguments=tuple(inner))
    else:
        over_columns = replace(expression, operand=inner[0])

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        columns = [each for each in data if isinstance(each, pa.Array)]
        return evaluate_rows(over_columns, schema, columns, length(data))

    return kernel


def evaluate_rows(
    expression: Expression, schema: Schema, columns: Sequence[pa.Array], count: int
) -> pa.Array:
    """Evaluate an expression row by row; raise the error of the first row that has one."""
    plain = [to_python(each, field.type) for each, field in zip(columns, schema, strict=True)]
    rows = zip(*plain, strict=True) if plain else iter([()] * count)
    evaluate = evaluator(expression, schema)
    if expression.type.kind not in (Kind.STRING, Kind.BINARY, *NESTED):
        return to_arrow([evaluate(row) for row in rows], expression.type)
    values, size = [], 0
    for row in rows:
        values.append(evaluate(row))
        size += size_of(values[-1], expression.type)
        check_together(size)
    return to_arrow(values, expression.type)


def constant(expression: Expression) -> Any:
    """Value of an expression without columns."""
    column = evaluate_rows(expression, Schema(()), [], 1)
    return to_python(column, expression.type)[0]
