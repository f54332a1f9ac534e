"""Filter: tuples for which a predicate is true; progress passes as it is."""

from __future__ import annotations

from functools import cached_property

from penstock.expressions.alone import compile_alone
from penstock.expressions.compile import compile_predicate
from penstock.operators.batch import Batch
from penstock.operators.operator import Item, Progress
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.nodes.stateless import Filter
from penstock.plan.properties.can_fail import may_fail
from penstock.plan.properties.comparisons import BetweenConstants, needed_for


class FilterOperator(Stateless):
    def __init__(self, node: Filter) -> None:
        self.predicate = node.predicate
        self.schema = node.input.schema
        self._holds = compile_predicate(node.predicate, node.input.schema)
        self._holds_for = compile_alone(node.predicate, node.input.schema)

    @cached_property
    def needed(self) -> BetweenConstants | None:
        """What tuples must have at least; others need not come here, where nothing can fail."""
        return None if may_fail(self.predicate) else needed_for(self.predicate)

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.form is not None and self._holds_for is not None:
            return [batch] if self._holds_for(batch.values) is True else []
        mask = self._holds(batch.rows)
        passing = mask.true_count
        if not passing:
            return []
        return [batch if passing == len(mask) else batch.filter(mask)]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [progress]
