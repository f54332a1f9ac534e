"""Which tuples of a sequence can be paired: by equal keys, by conditions on one of the two alone,
and by what is left, pair by pair.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.expressions.columns import flags_of
from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.schema import Schema
from penstock.operators.joins.sequences.equal_keys import NO_KEY, EqualKeys
from penstock.operators.joins.sequences.pool import Pool
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.joins import equal_keys
from penstock.plan.nodes.sequence import Sequence
from penstock.plan.properties.can_fail import may_fail


class SequenceCondition:
    def __init__(self, node: Sequence) -> None:
        schemas = (node.first.schema, node.second.schema)
        pairs, others = equal_keys(*schemas, node.condition)
        self.keys = EqualKeys(schemas, pairs)
        own: tuple[list[Expression], list[Expression]] = ([], [])
        rest = []
        for each in others:
            port = _only_port(each, schemas)
            # what can fail is asked of pairs alone: a tuple without a candidate must not fail
            if port is None or may_fail(each):
                rest.append(each)
            else:
                own[port].append(each)
        self._own = [
            compile_predicate(holds, schema) if (holds := all_of(each)) is not None else None
            for each, schema in zip(own, schemas, strict=True)
        ]
        self._rest = _PairCondition(node, rest) if rest else None
        self.may_fail = any(map(may_fail, rest))

    @property
    def is_left_to_pairs(self) -> bool:
        """Whether equal keys do not yet make a pair."""
        return self._rest is not None

    def codes(self, port: int, rows: pa.RecordBatch) -> Codes:
        """The keys of tuples; those that can never be paired have none."""
        codes = self.keys.of(port, rows)
        own = self._own[port]
        return codes if own is None else np.where(flags_of(own(rows)), codes, NO_KEY)

    def holds(self, first: Pool, numbers: Ints, second: Pool, others: Ints) -> Mask:
        """Which pairs of tuples, by their numbers, fit."""
        if self._rest is None:
            return np.ones(len(numbers), np.bool_)
        return self._rest.holds(first, numbers, second, others)


class _PairCondition:
    def __init__(self, node: Sequence, conditions: list[Expression]) -> None:
        holds = all_of(conditions)
        assert holds is not None
        places = sorted({each.position(node.schema) for each in columns_of(holds)})
        schema = Schema(tuple(node.schema.fields[place] for place in places))
        width = len(node.first.schema)
        self._schema = schema.arrow
        self._first = [place for place in places if place < width]
        self._second = [place - width for place in places if place >= width]
        self._holds = compile_expression(holds, schema)

    def holds(self, first: Pool, numbers: Ints, second: Pool, others: Ints) -> Mask:
        columns = first.rows.columns(numbers, self._first)
        columns += second.rows.columns(others, self._second)
        if not columns:  # a condition on nothing, which can fail
            batch = pa.record_batch({"_": pa.nulls(len(numbers))})
        else:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return flags_of(self._holds(batch))


def _only_port(condition: Expression, schemas: tuple[Schema, Schema]) -> int | None:
    """The input that a condition is about; a constant may be asked of either."""
    known = [{(each.name, each.relation) for each in schema} for schema in schemas]
    found = {(each.name, each.relation) for each in columns_of(condition)}
    return next((port for port in (1, 0) if found <= known[port]), None)
