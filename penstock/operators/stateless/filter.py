"""Filter: tuples for which a predicate is true; progress passes as it is."""

from __future__ import annotations

from penstock.expressions.compile import compile_predicate
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, Progress
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.stateless import Filter
from penstock.scalars.evaluate import evaluator


class FilterOperator(Stateless):
    def __init__(self, node: Filter) -> None:
        self._holds = compile_predicate(node.predicate, node.input.schema)
        self._holds_for = evaluator(node.predicate, node.input.schema)

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.form is not None:
            return [batch] if self._holds_for(batch.values) is True else []
        mask = self._holds(batch.rows)
        passing = mask.true_count
        if not passing:
            return []
        return [batch if passing == len(mask) else batch.filter(mask)]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [progress]
