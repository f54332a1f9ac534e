"""GROUP BY with a progressing key against the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.groups.group_by import GroupedOperator
from penstock.kernel.state import Slices
from penstock.model.punctuation import BEGINNING, END
from penstock.plan.nodes.aggregation import GroupAggregate
from tests.kernel.driving import (
    ALL,
    DIFFERENTIAL,
    PROMISE,
    ROWS,
    Row,
    Stream,
    check,
    examples,
)

OPERATORS = {GroupAggregate: GroupedOperator}


@pytest.mark.parametrize("aggregates", [DIFFERENTIAL, ALL], ids=["differential", "all"])
@examples
@given(
    rows=ROWS,
    promise=PROMISE,
    keys=st.sampled_from(["t", "t, k", "k, t, x", "t + 3, t", "t * 2, k"]),
)
def test_against_the_reference(
    aggregates: str, rows: list[Row], promise: dict[str, Any], keys: str
) -> None:
    sql = f"SELECT {aggregates} FROM s GROUP BY {keys}"
    check(sql, Stream(rows, promise), OPERATORS)


@examples
@given(rows=ROWS, promise=PROMISE, full=st.integers(1, 4))
def test_slices_of_any_size(rows: list[Row], promise: dict[str, Any], full: int) -> None:
    def operator(node: GroupAggregate) -> GroupedOperator:
        made = GroupedOperator(node)
        made._slices._full = full
        return made

    sql = "SELECT t, k, count(*) AS c, last(i) AS l FROM s GROUP BY t, k"
    check(sql, Stream(rows, promise), {GroupAggregate: operator})


def test_slices_are_forgotten() -> None:
    class Seen(list[int]):
        pass

    slices = Slices(Seen, full=2)
    for tick in range(10):
        for seen, rows in slices.cut(np.array([tick])):
            assert rows is None
            seen.append(tick)
    assert list(slices.upto(END)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    for seen, rows in slices.cut(np.array([11, 1, 3, 4, 2])):
        seen.append(rows.tolist())
    # a full slice is followed by one that begins above all keys so far
    assert list(slices.upto(END))[-1] == [[0]]
    assert list(slices.upto(3)) == [[0, 1, [1]], [2, 3, [2, 4]]]
    slices.forget(BEGINNING)
    slices.forget(3)
    assert next(slices.upto(END)) == [2, 3, [2, 4]]
    slices.forget(8)
    assert list(slices.upto(END)) == [[8, 9], [[0]]]
