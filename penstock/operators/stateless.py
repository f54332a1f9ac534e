"""Operators on one tuple at a time: filter, project, and the union that buffers nothing (Meld)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.batch import SIGN, has_sign, signs, with_signs
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.schema import Field
from penstock.operators.bounds import BoundOf, bound_name, has_broken
from penstock.operators.chunks import ChunkStore
from penstock.operators.group_bounds import GroupBounds
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Item, Progress, by_name, by_origin
from penstock.plan.expressions import Column
from penstock.plan.identity import origins
from penstock.plan.stateless import Filter, Project, Union


class Stateless:
    """Nothing is kept from tuple to tuple."""

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        pass

    def load(self, store: ChunkStore) -> None:
        pass


class FilterOperator(Stateless):
    def __init__(self, node: Filter) -> None:
        self._holds = compile_predicate(node.predicate, node.input.schema)

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterator[Item]:  # noqa: ARG002
        mask = self._holds(batch)
        passing = mask.true_count
        if passing == batch.num_rows:
            yield batch
        elif passing:
            yield batch.filter(mask)

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        yield progress


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


class Meld:
    """The union that passes tuples through and promises what the slowest input does."""

    def __init__(self, node: Union) -> None:
        self._names = [[f.qualified for f in branch.schema] for branch in node.branches]
        self._output = [field.qualified for field in node.schema]
        self._origins = origins(node)
        self._bounds: list[dict[str, Bound]] = [{} for _ in node.branches]
        self._ended = [False] * len(node.branches)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterator[Item]:
        yield batch.rename_columns(
            [
                *self._output,
                *map(self._renamed_bound(port), batch.schema.names[len(self._output) :]),
            ]
        )

    def _renamed_bound(self, port: int) -> Callable[[str], str]:
        names = dict(zip(map(bound_name, self._names[port]), self._output, strict=True))
        return lambda name: name if name == SIGN else bound_name(names[name])

    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        names = dict(zip(self._names[port], self._output, strict=True))
        self._bounds[port] = {names[k]: v for k, v in progress.bounds.items() if k in names}
        self._ended[port] = self._ended[port] or progress.ended
        for key, value in progress.high.items():
            if key in names:
                self._high[names[key]] = max(value, self._high.get(names[key], BEGINNING))
        waiting = [b for b, ended in zip(self._bounds, self._ended, strict=True) if not ended]
        common = set.intersection(*map(set, waiting)) if waiting else set()
        slowest = {name: min(bounds[name] for bounds in waiting) for name in common}
        promised = Progress(slowest, dict(self._high), all(self._ended))
        if promised != self._promised:
            self._promised = promised
            yield promised

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        bounds = [by_origin(each, self._origins) for each in self._bounds]
        high, promised = by_origin(self._high, self._origins), self._promised.save(self._origins)
        registers = {"bounds": bounds, "ended": self._ended, "high": high}
        store.put("run", {**registers, "promised": promised})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._bounds = [by_name(each, self._origins) for each in saved["bounds"]]
            self._ended, self._high = saved["ended"], by_name(saved["high"], self._origins)
            self._promised = Progress.load(saved["promised"], self._origins)
