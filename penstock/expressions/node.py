"""What the compiler passes around: nodes that run on a batch, and kernels that nodes are made of.

A kernel either gives exactly what the reference evaluator gives, or raises one of `FAILURES`.  It
need not say which tuple is to blame: whoever catches the failure asks the reference (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.model.plain_values import to_arrow
from penstock.model.types import Kind, Type
from penstock.plan.expressions import Call, Literal

FAILURES = (pa.ArrowInvalid, RunError)

Compiled: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
# The arguments come as columns, constants as scalars; at least one of them is a column.
Kernel: TypeAlias = Callable[..., pa.Array]
# Gets the call and, for each argument, the literal it was folded to, or None.  Unless it is meant
# for them, it never gets a NULL literal.  No kernel: the call has to go row by row.
Builder: TypeAlias = Callable[[Call, Sequence[Literal | None]], Kernel | None]


def arrow(name: str, options: pc.FunctionOptions | None = None) -> Kernel:
    """The Arrow function of that name; `call` has less overhead than the functions of `pc`.

    >>> arrow("add")(pa.array([1, 2]), pa.scalar(3)).to_pylist()
    [4, 5]
    """
    call = pc.get_function(name).call
    if options is None:
        return lambda *data: call(data)
    return lambda *data: call(data, options)


def always(kernel: Kernel) -> Builder:
    """The same kernel for every call."""
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
    """The kernel of functions that leave their argument as it is."""
    return column


def all_null(sql_type: Type) -> Kernel:
    """The kernel of calls that are NULL whatever their columns hold."""
    arrow_type = sql_type.arrow

    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        return pa.nulls(length(data), arrow_type)

    return kernel


def length(data: Sequence[pa.Array | pa.Scalar]) -> int:
    """The number of rows that a kernel is called for."""
    return next(len(each) for each in data if isinstance(each, pa.Array))
