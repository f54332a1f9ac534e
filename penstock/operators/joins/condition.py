"""Which pairs of tuples join, among those whose keys are equal and whose times fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import flags_of
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Mask
from penstock.model.schema import Schema
from penstock.operators.joins.partners.pairs import Pairs
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.joins import Join, TimeCondition, by_risk


class Condition:
    """The rest of the condition, and further times that have to fit.  What may fail comes last, and
    sees only pairs for which the others hold."""

    def __init__(self, node: Join, others: list[Expression]) -> None:
        safe, risky = by_risk(all_of(others))
        tests = [_Test(node, safe, node.also), _Test(node, risky)]
        self._tests = [test for test in tests if test]

    def among(self, pairs: Pairs, port: int) -> Pairs:
        """The pairs that join, where tuples came at a port."""
        for test in self._tests:
            if len(pairs):
                pairs = pairs.filter(test.holds(pairs, port))
        return pairs


class _Test:
    """Some conditions, computed from the columns that they need."""

    def __init__(
        self, node: Join, conditions: list[Expression], also: tuple[TimeCondition, ...] = ()
    ) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        columns += [column for each in also for column in (each.left, each.right)]
        places = sorted({column.position(node.pair_schema) for column in columns})
        schema = Schema(tuple(node.pair_schema.fields[place] for place in places))
        width = len(node.branches[0].schema)
        self._schema = schema.arrow
        self._left = [place for place in places if place < width]
        self._right = [place - width for place in places if place >= width]
        self._tests: list[Callable[[pa.RecordBatch], Mask]] = [
            condition_test(each, schema) for each in conditions
        ]
        self._tests += [time_test(each, schema) for each in also]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def holds(self, pairs: Pairs, port: int) -> Mask:
        sides = ((self._left, port == 0), (self._right, port == 1))
        columns = [c for which, came in sides if which for c in pairs.columns(came, which)]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(pairs))})
        found: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return found


def condition_test(condition: Expression, schema: Schema) -> Callable[[pa.RecordBatch], Mask]:
    """For rows that have its columns: whether it is true."""
    compiled = compile_expression(condition, schema)
    return lambda batch: flags_of(compiled(batch))


def time_test(also: TimeCondition, schema: Schema) -> Callable[[pa.RecordBatch], Mask]:
    """For rows that have both columns: whether their times fit."""
    left, right = also.left.position(schema), also.right.position(schema)

    def fits(batch: pa.RecordBatch) -> Mask:
        lefts = to_ticks(batch.column(left), also.left.type)
        return also.window.matches_columns(lefts, to_ticks(batch.column(right), also.right.type))

    return fits
