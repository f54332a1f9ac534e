"""Project: computed columns, and progress on those that rise with progressing ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.batch import has_sign, signs, with_signs
from penstock.model.schema import Field
from penstock.operators.bounds import BoundOf, bound_name, has_broken
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.operator import Item, Progress
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.expressions import Column
from penstock.plan.stateless import Project


class ProjectOperator(Stateless):
    """Computed columns, and the bounds of those that rise with progressing ones."""

    def __init__(self, node: Project) -> None:
        self._columns = [compile_expression(c.expression, node.input.schema) for c in node.columns]
        self._schema = node.schema.arrow
        by_name = {column.name: column.expression for column in node.columns}
        self._bounds = {
            each.field.qualified: BoundOf(by_name[each.field.name]) for each in node.progress
        }
        self._plain = {  # columns that stay as they are, and what they are called now
            Field(each.name, each.type, each.relation).qualified: field.qualified
            for column, field in zip(node.columns, node.schema, strict=True)
            if isinstance(each := column.expression, Column)
        }

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterator[Item]:  # noqa: ARG002
        columns = [column(batch) for column in self._columns]
        made = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if has_broken(batch):
            for name, bound in self._bounds.items():
                rows, ticks = bound.broken(batch)
                bounds = np.zeros(batch.num_rows, np.int64)
                kept = np.ones(batch.num_rows, np.bool_)
                bounds[rows], kept[rows] = ticks, False
                made = made.append_column(bound_name(name), pa.array(bounds, mask=kept))
        if has_sign(batch):
            made = with_signs(made, signs(batch))
        yield made

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bounds = {name: bound.promised(progress) for name, bound in self._bounds.items()}
        high = {name: bound.reached(progress) for name, bound in self._bounds.items()}
        yield Progress(bounds, high, progress.ended, self._groups(progress.groups))

    def _groups(self, groups: GroupBounds | None) -> GroupBounds | None:
        """Bounds on groups that can still be told apart."""
        if groups is None or not self._plain.keys() >= set(groups.columns):
            return None
        found = {name: bound.of_groups(groups) for name, bound in self._bounds.items()}
        bounds = {name: ticks for name, ticks in found.items() if ticks is not None}
        columns = tuple(self._plain[column] for column in groups.columns)
        return GroupBounds(columns, groups.keys, bounds) if bounds else None
