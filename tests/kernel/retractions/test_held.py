"""What operators over signed items keep: nothing that no window, group or row can ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Operator, Progress
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower_node

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])


def operator(select: str) -> Operator:
    db = ps.connect()
    for name in "lr":
        batch = pa.RecordBatch.from_pylist([], SCHEMA)
        db.stream(name, [batch], progress=ps.progress("t", ordered=True))
    query = db.sql(select.format("(SELECT k, changed_at FROM l EXCEPT ON (k) r)"))
    assert isinstance(query, ps.Query)
    node = next(each for each in query.plan.walk() if each.stateful)
    return operator_for(lower_node(node), ManualClock())


def feed(to: Operator, items: list[tuple[int, int, int]], bound: int) -> None:
    """Items of (lineage, time, sign), of one key."""
    if items:
        lineage, times, signs = (np.array(column) for column in zip(*items, strict=True))
        columns = [pa.array(np.zeros(len(items), np.int64)), pa.array(times)]
        rows = pa.RecordBatch.from_arrays(columns, ["k", "changed_at"])
        to.on_batch(0, Batch(rows, signs.astype(np.int8), lineage=lineage))
    to.on_progress(0, Progress({"changed_at": bound}))


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        # of five that came, two are taken back in all of their windows; those end at 10 and 20
        ("SELECT count(*) AS n [RANGE 20, SLIDE 10, WA changed_at] FROM {}", (5, 3, 0)),
        # what is there may stay there for ever
        ("SELECT count(*) AS n [RANGE ALL, SLIDE 10, WA changed_at] FROM {}", (5, 3, 3)),
        # a window opened from 9 on holds what comes after 0: 3 and 4 are there
        ("SELECT count(*) AS n [RANGE 9, RATTR changed_at, SLIDE 1 ROW] FROM {}", (5, 2, 0)),
        # windows over 4 rows that are not full after 5, 7 and 7 items
        ("SELECT count(*) AS n [RANGE 4 ROWS, SLIDE 1 ROWS] FROM {}", (3, 1, 1)),
        ("SELECT changed_at, count(*) AS n FROM {} GROUP BY changed_at", (0, 0, 0)),
        ("SELECT DISTINCT k, changed_at FROM {}", (0, 0, 0)),
    ],
)
def test_items_are_forgotten(select: str, expected: tuple[int, ...]) -> None:
    made = operator(select)
    steps: list[Any] = [
        ([(n, n, 1) for n in range(5)], 6),
        ([(1, 6, -1), (2, 7, -1)], 9),
        ([], 40),
    ]
    held = []
    for items, bound in steps:
        feed(made, items, bound)
        held.append(made.metrics().rows)
    assert tuple(held) == expected
