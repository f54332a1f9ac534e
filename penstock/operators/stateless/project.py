"""Project: computed columns, and progress on those that rise with progressing ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.expressions.alone import compile_alone
from penstock.expressions.compile import compile_expression
from penstock.expressions.sizes import RowSizes
from penstock.model.arrays import Ints
from penstock.model.punctuation import Bound, JointPunctuation
from penstock.model.row_form import RowForm
from penstock.model.schema import Field
from penstock.model.types import Kind
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.operator import Item, Progress
from penstock.operators.stateless.stateless import Stateless
from penstock.plan.expressions import Column
from penstock.plan.nodes.stateless import Project


class ProjectOperator(Stateless):
    """Computed columns, and the bounds of those that rise with progressing ones."""

    def __init__(self, node: Project) -> None:
        self._columns = [compile_expression(c.expression, node.input.schema) for c in node.columns]
        self._sizes = RowSizes([c.expression for c in node.columns])
        alone = [compile_alone(c.expression, node.input.schema) for c in node.columns]
        self._values = [] if self._sizes.matter else [each for each in alone if each is not None]
        self._schema = node.schema.arrow
        self._form = RowForm(node.schema)
        by_name = {column.name: column.expression for column in node.columns}
        self._bounds = {
            each.field.qualified: BoundOf(by_name[each.field.name]) for each in node.progress
        }
        self._plain = {  # columns that stay as they are, and what they are called now
            Field(each.name, each.type, each.relation).qualified: field.qualified
            for column, field in zip(node.columns, node.schema, strict=True)
            if isinstance(each := column.expression, Column)
        }

        plain = [c.expression for c in node.columns if isinstance(c.expression, Column)]
        self._places: list[int] | None = None  # of columns that only get another name
        if len(plain) == len(node.columns) and all(c.type.kind is not Kind.NULL for c in plain):
            self._places = [column.position(node.input.schema) for column in plain]

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.form is not None and len(self._values) == len(self._columns):
            return [Batch.single(tuple([of(batch.values) for of in self._values]), self._form)]
        rows = batch.rows
        if self._places is not None:
            columns = [rows.column(place) for place in self._places]
        else:
            computed = (column(rows) for column in self._columns)
            columns = self._sizes.checked(computed) if self._sizes.matter else list(computed)
        made = batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if batch.form is not None:
            made.form = self._form
        if batch.broken is not None:
            made = made.without_broken()
            for name, bound in self._bounds.items():
                rows, ticks = bound.broken(batch)
                bounds = np.zeros(batch.num_rows, np.int64)
                broken = np.zeros(batch.num_rows, np.bool_)
                bounds[rows], broken[rows] = ticks, True
                made = made.breaking(name, bounds, broken)
        return [made]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        bounds: dict[str, Bound] = {}
        high: dict[str, Bound] = {}
        for name, bound in self._bounds.items():
            bounds[name], high[name] = bound.promised(progress), bound.reached(progress)
        groups = None if progress.groups is None else self._groups(progress.groups)
        joint = self._joint(progress.joint) if progress.joint else ()
        return [Progress(bounds, high, progress.ended, groups, joint)]

    def _joint(self, joint: tuple[JointPunctuation, ...]) -> tuple[JointPunctuation, ...]:
        """Promises about pairs of columns that both stay as they are."""
        kept = [each for each in joint if self._plain.keys() >= set(each.attributes)]
        return tuple(each.renamed(self._plain) for each in kept)

    def bounds(self, bounds: Mapping[str, Ints]) -> dict[str, Ints]:
        """What many bounds, of different tuples, are on the computed columns."""
        found = {name: bound.of_many(bounds) for name, bound in self._bounds.items()}
        return {name: ticks for name, ticks in found.items() if ticks is not None}

    def _groups(self, groups: GroupBounds) -> GroupBounds | None:
        """Bounds on groups that can still be told apart."""
        if not self._plain.keys() >= set(groups.columns):
            return None
        bounds = self.bounds(groups.bounds)
        columns = tuple(self._plain[column] for column in groups.columns)
        return GroupBounds(columns, groups.keys, bounds) if bounds else None
