"""Filter: tuples for which a predicate is true; progress passes as it is."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.expressions.compile import compile_predicate
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.stateless import Filter


class FilterOperator(Stateless):
    def __init__(self, node: Filter) -> None:
        self._holds = compile_predicate(node.predicate, node.input.schema)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        mask = self._holds(batch.rows)
        passing = mask.true_count
        if passing == batch.num_rows:
            yield batch
        elif passing:
            yield batch.filter(mask)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        yield progress
