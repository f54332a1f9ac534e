"""Which pairs of rows with equal keys join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.joins.condition import condition_test
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.joins import by_risk
from penstock.plan.nodes.running_join import RunningJoin


class PairTests:
    """The rest of a condition; what may fail comes last, and sees only pairs for which the others
    hold."""

    def __init__(self, node: RunningJoin, others: list[Expression]) -> None:
        self._tests = [_PairTest(node, each) for each in by_risk(all_of(others)) if each]

    def hold(
        self, rows: pa.RecordBatch, ours: Ints, found: pa.RecordBatch, theirs: Ints, port: int
    ) -> Ints | None:
        """The places of the pairs that join, where `ours` came at a port; None: all of them."""
        kept: Ints | None = None
        for test in self._tests:
            holds = test.of(rows, ours, found, theirs, port)
            ours, theirs = ours[holds], theirs[holds]
            kept = np.flatnonzero(holds) if kept is None else kept[holds]
        return kept


class _PairTest:
    def __init__(self, node: RunningJoin, conditions: list[Expression]) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        places = sorted({column.position(node.pair_schema) for column in columns})
        schema = Schema(tuple(node.pair_schema.fields[place] for place in places))
        width = len(node.left.schema)
        self._schema = schema.arrow
        self._places = (
            [place for place in places if place < width],
            [place - width for place in places if place >= width],
        )
        self._tests = [condition_test(each, schema) for each in conditions]

    def of(
        self, rows: pa.RecordBatch, ours: Ints, found: pa.RecordBatch, theirs: Ints, port: int
    ) -> Mask:
        sides = ((rows, pa.array(ours)), (found, pa.array(theirs)))
        columns = []
        for side, needed in enumerate(self._places):
            given, places = sides[0] if side == port else sides[1]
            columns += [given.column(place).take(places) for place in needed]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(ours))})
        holds: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return holds
