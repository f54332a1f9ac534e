"""DISTINCT against the reference engine."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.groups.distinct import DistinctOperator
from penstock.plan.nodes.aggregation import Distinct
from tests.kernel.driving import PROMISE, ROWS, Row, Stream, check, examples


def _in_small_slices(node: Distinct) -> DistinctOperator:
    made = DistinctOperator(node)
    made._seen._full = 2
    return made


@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    columns=st.sampled_from(["k, t", "t", "x, i, t", "t * 2 AS u, k, t", "-x AS y, t"]),
    operator=st.sampled_from([DistinctOperator, _in_small_slices]),
)
def test_against_the_reference(
    rows: list[Row], promise: dict[str, Any], columns: str, operator: Any
) -> None:
    check(f"SELECT DISTINCT {columns} FROM s", Stream(rows, promise), {Distinct: operator})
