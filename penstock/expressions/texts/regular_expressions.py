"""Regular expressions on columns of texts, with constant patterns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import RunError
from penstock.expressions.node import Builder, Kernel
from penstock.plan.expressions import Call, Literal
from penstock.scalars.regular_expressions import REGULAR_EXPRESSIONS as COMPUTE


def _on_columns(name: str) -> Builder:
    compute = COMPUTE[name]

    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        texts, *constants = literals
        values = [literal.value for literal in constants if literal is not None]
        if texts is not None or len(values) < len(constants):
            return None
        try:
            compute(pa.array([""]), *values)
        except RunError:  # which is for the first text to say
            return None

        def kernel(column: pa.Array, *_: pa.Scalar) -> pa.Array:
            return compute(column, *values)

        return kernel

    return build


REGULAR_EXPRESSIONS: dict[str, Builder] = {name: _on_columns(name) for name in COMPUTE}
