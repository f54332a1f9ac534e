"""One operation of a dataflow expression: combinations of some inputs meet the tuples that are kept
of one more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.joins.condition import condition_test, time_test
from penstock.operators.joins.multiway.combinations import Combinations
from penstock.operators.joins.multiway.window_index import WindowIndex
from penstock.operators.joins.partners.arrivals import Partners
from penstock.operators.joins.partners.pairs import pieces_of
from penstock.operators.ticks import to_ticks
from penstock.plan.expressions import Column, Expression, columns_of
from penstock.plan.nodes.joins import Join, TimeCondition


class InputExpression:
    """An expression of the columns of one input, computed for combinations."""

    def __init__(self, join: Join, number: int, expression: Expression) -> None:
        schema = join.branches[number].schema
        self._input = number
        self._places = sorted({each.position(schema) for each in columns_of(expression)})
        needed = Schema(tuple(schema.fields[place] for place in self._places))
        self._arrow = needed.arrow
        plain = isinstance(expression, Column)
        self._compute = None if plain else compile_expression(expression, needed)

    def of(self, given: Combinations) -> pa.Array:
        columns = given.chosen[self._input].columns(self._places)
        if self._compute is None:
            return columns[0]
        return self._compute(pa.RecordBatch.from_arrays(columns, schema=self._arrow))


class CombinationTest:
    """Conditions on columns of several inputs, and times that have to fit."""

    def __init__(
        self, join: Join, conditions: Sequence[Expression], times: Sequence[TimeCondition] = ()
    ) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        columns += [column for each in times for column in (each.left, each.right)]
        self._needed: list[tuple[int, list[int]]] = []  # columns of each input
        fields = []
        for number, branch in enumerate(join.branches):
            own = {(field.name, field.relation) for field in branch.schema}
            mine = [each for each in columns if (each.name, each.relation) in own]
            places = sorted({each.position(branch.schema) for each in mine})
            if places:
                self._needed.append((number, places))
                fields += [branch.schema.fields[place] for place in places]
        schema = Schema(tuple(fields))
        self._arrow = schema.arrow
        self._tests = [condition_test(each, schema) for each in conditions]
        self._tests += [time_test(each, schema) for each in times]

    def among(self, given: Combinations) -> Combinations:
        if not self._tests or not len(given):
            return given
        columns = [
            c for number, places in self._needed for c in given.chosen[number].columns(places)
        ]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(given))})
        holds: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return given.filter(holds)


@dataclass(frozen=True, slots=True)
class TimeLink:
    """How far from the time of one input that of the new one may be."""

    time: InputExpression
    column: Column
    partners: Partners

    def bounds(self, given: Combinations) -> tuple[Ints, Ints]:
        return self.partners(to_ticks(self.time.of(given), self.column.type))


class Probe:
    """⋈(w) for the window of one more input: by `keys` that are computed from the inputs before,
    within the times that all of them leave."""

    def __init__(
        self,
        new: int,
        index: WindowIndex,
        keys: Sequence[InputExpression],
        links: Sequence[TimeLink],
        test: CombinationTest,
    ) -> None:
        self._new = new
        self._index = index
        self._keys = keys
        self._links = links
        self._test = test

    def extend(self, given: Combinations) -> Iterator[Combinations]:
        """As many at a time as memory has room for."""
        if not len(self._index):
            return
        lows, highs = self._links[0].bounds(given)
        for link in self._links[1:]:
            low, high = link.bounds(given)
            lows, highs = np.maximum(lows, low), np.minimum(highs, high)
        fit = highs >= lows
        if not fit.all():
            given, lows, highs = given.filter(fit), lows[fit], highs[fit]
            if not len(given):
                return
        codes, _ = self._index.codes.of([key.of(given) for key in self._keys], len(given))
        for pieces in pieces_of(self._index.find(codes, lows, highs)):
            found = self._test.among(given.with_partners(pieces, self._new))
            if len(found):
                yield found
