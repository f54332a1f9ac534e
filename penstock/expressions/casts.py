"""CAST and TRY_CAST: which conversion leads from one type to another, and what if it fails."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.columns import holds_somewhere, without
from penstock.expressions.convert import Converter, converter
from penstock.expressions.node import FAILURES, Kernel
from penstock.expressions.rows import by_rows
from penstock.plan.expressions import Cast


def cast_kernel(cast: Cast) -> Kernel | None:
    convert = converter(cast.operand.type, cast.type)
    if convert is None:
        return None
    return _trying(cast, convert) if cast.tries else _insisting(cast, convert)


def _insisting(cast: Cast, convert: Converter) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        converted, failed = convert(column)
        if failed is not None and holds_somewhere(failed, column):
            raise RunError(f"a value cannot be made a {cast.type}")
        return converted

    return kernel


def _trying(cast: Cast, convert: Converter) -> Kernel:
    rows = by_rows(cast)

    def kernel(column: pa.Array) -> pa.Array:
        try:
            converted, failed = convert(column)
        except FAILURES:  # the conversion cannot tell which values it is about
            return rows(column)
        if failed is None or not failed.any():
            return converted
        return without(converted, failed)

    return kernel
