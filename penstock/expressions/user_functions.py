"""Functions of the user's on whole columns."""

from __future__ import annotations

import pyarrow as pa

from penstock.expressions.node import Kernel, length
from penstock.functions.user_functions import UserFunction


def user_kernel(function: UserFunction) -> Kernel:
    def kernel(*data: pa.Array | pa.Scalar) -> pa.Array:
        count = length(data)
        columns = [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in data]
        return function.column(columns, count)

    return kernel
