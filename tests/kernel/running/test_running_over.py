"""Heads of partitions decide what is within a limit, however rows come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.running import running_over as leading_rows
from penstock.kernel.running.running_over import RunningPartitions
from penstock.kernel.state import MemoryStore
from penstock.optimizer.optimize import executed_query
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.over import RunningOver
from tests.reference.helpers import Stream, database

SQL = (
    "SELECT *, {call}() OVER (PARTITION BY k ORDER BY n DESC) AS place FROM"
    " (SELECT k, x, count(*) AS n FROM s GROUP BY k, x) q QUALIFY place <= {limit} EMIT CHANGES"
)
CHANGES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.integers(0, 5)),
        min_size=1,
        max_size=12,
    ),
    max_size=8,
)


def node_of(call: str, limit: int) -> RunningOver:
    bound = database(s=Stream("k STRING, x INT", [("a", 1)])).sql(
        SQL.format(call=call, limit=limit)
    )
    assert isinstance(bound, ps.Query)
    plan = executed_query(bound.plan, Settings())
    return next(node for node in plan.walk() if isinstance(node, RunningOver))


def numbered(rows: Counter[Any], call: str, limit: int) -> Counter[Any]:
    """By definition; rows of equal order are in that of their columns."""
    found: Counter[Any] = Counter()
    for key in {row[0] for row in rows}:
        part = sorted(
            (each for each in rows.elements() if each[0] == key), key=lambda r: (-r[2], r[1])
        )
        for place, row in enumerate(part):
            before = [each[2] for each in part if each[2] > row[2]]
            number = {
                "row_number": place + 1,
                "rank": len(before) + 1,
                "dense_rank": len(set(before)) + 1,
            }[call]
            if number <= limit:
                found[(*row, number)] += 1
    return found


@settings(deadline=None, max_examples=80)
@given(
    batches=CHANGES,
    call=st.sampled_from(["row_number", "rank", "dense_rank"]),
    limit=st.integers(1, 3),
    restart=st.integers(0, 8),
)
def test_what_is_said_sums_up(
    batches: list[list[Any]], call: str, limit: int, restart: int
) -> None:
    with mock.patch.object(leading_rows, "_MORE", 1):
        node = node_of(call, limit)
        operator = RunningPartitions(node)
        assert isinstance(operator._rows, leading_rows.LeadingRows)
        rows: Counter[Any] = Counter()
        seen: Counter[Any] = Counter()
        schema = node.input.schema.arrow
        for number, batch in enumerate(batches):
            if number == restart:
                store = MemoryStore()
                operator.save(store)
                operator = RunningPartitions(node)
                operator.load(store)
            # a row that is there is taken back, another one is given
            signs = []
            for row in batch:
                signs.append(-1 if rows[row] > 0 else 1)
                rows[row] += signs[-1]
            columns = zip(*batch, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            given_rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
            for item in operator.on_batch(0, Batch(given_rows, np.array(signs, np.int8))):
                assert isinstance(item, Batch)
                assert item.signs is not None
                values = zip(*(each.to_pylist() for each in item.rows.columns), strict=True)
                for row, sign in zip(values, item.signs.tolist(), strict=True):
                    seen[row] += sign
                    assert seen[row] >= 0
            assert +seen == numbered(rows, call, limit)
        assert operator.rows_held() >= rows.total()
