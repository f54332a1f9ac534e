"""Segments: stateless steps in a row, for batches and for progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Protocol

import numpy as np

from penstock.kernel.batch import Batch
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.operator import Operator, Progress
from penstock.kernel.stateless import FilterOperator, ProjectOperator, StampOperator, UnnestOperator
from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.plan.nodes.node import Filter, Project, Stamp, Unnest
from penstock.spark.stages import Branch, Step, TableStep, filled
from penstock.spark.tasks.messages import StepName, StepWork


class StatelessSegment:
    """A segment of stateless steps."""

    def __init__(self, steps: Sequence[Step], clock: Clock) -> None:
        self._links = [_link(step, clock) for step in steps]
        self._work = [StepWork() for _ in steps]

    def work(self, stage: int, path: int, first: int = 0) -> list[tuple[StepName, StepWork]]:
        """Work of the steps, which are those from the `first` on of a path."""
        names = [StepName(stage, path, first + place) for place in range(len(self._work))]
        return list(zip(names, self._work, strict=True))

    def batches(self, batch: Batch) -> Iterator[Batch]:
        """Yield the rows that pass, with their annotations: in one piece, or in several where
        tuples match many rows of a table.  A piece is made when the one before it was taken."""
        return self._from(0, batch)

    def _from(self, first: int, batch: Batch) -> Iterator[Batch]:
        for number in range(first, len(self._links)):
            if batch.num_rows == 0:
                return
            link, work = self._links[number], self._work[number]
            work.rows_in += batch.num_rows
            begin = perf_counter_ns()
            if isinstance(link, _TableLookup):
                for piece in link.batches(batch):
                    work.nanoseconds += perf_counter_ns() - begin
                    work.rows_out += piece.num_rows
                    yield from self._from(number + 1, piece)
                    begin = perf_counter_ns()
                work.nanoseconds += perf_counter_ns() - begin
                return
            batch = link.batch(batch)
            work.nanoseconds += perf_counter_ns() - begin
            work.rows_out += batch.num_rows
        if batch.num_rows:
            yield batch

    def progress(self, progress: Progress) -> Progress:
        for link in self._links:
            progress = link.progress(progress)
        return progress

    def bounds(self, bounds: Mapping[str, Ints]) -> Mapping[str, Ints]:
        """Map many bounds, each of which could be progress of its own."""
        for link in self._links:
            bounds = link.bounds(bounds)
        return bounds


class _Link(Protocol):
    def progress(self, progress: Progress) -> Progress: ...

    def bounds(self, bounds: Mapping[str, Ints]) -> Mapping[str, Ints]: ...


class _OneToOne(_Link, Protocol):
    def batch(self, batch: Batch) -> Batch: ...


def _link(step: Step, clock: Clock) -> _OneToOne | _TableLookup:
    match step:
        case Filter():
            return _OneBatch(FilterOperator(step))
        case Project():
            return _OneBatch(ProjectOperator(step))
        case Unnest():
            return _OneBatch(UnnestOperator(step))
        case Stamp():
            return _OneBatch(StampOperator(step, clock))
        case Branch():
            return _IntoUnion(step)
        case TableStep():
            assert step.file is not None
            return _TableLookup(filled(step.lookup, step.file))


class _OneBatch:
    """An operator that makes at most one batch from a batch."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def batch(self, batch: Batch) -> Batch:
        for item in self._operator.on_batch(0, batch):
            if isinstance(item, Batch):
                return item
        return batch.take(np.zeros(0, np.int64))

    def progress(self, progress: Progress) -> Progress:
        (made,) = self._operator.on_progress(0, progress)
        assert isinstance(made, Progress)
        return made

    def bounds(self, bounds: Mapping[str, Ints]) -> Mapping[str, Ints]:
        # all other operators keep the bounds
        if isinstance(self._operator, ProjectOperator):
            return self._operator.bounds(bounds)
        return bounds


class _TableLookup:
    """A look-up in a table: a tuple may match many rows."""

    def __init__(self, operator: LookupOperator) -> None:
        self._operator = operator

    def batches(self, batch: Batch) -> Iterator[Batch]:
        for item in self._operator.on_batch(0, batch):
            if isinstance(item, Batch):
                yield item

    def progress(self, progress: Progress) -> Progress:
        return progress

    def bounds(self, bounds: Mapping[str, Ints]) -> Mapping[str, Ints]:
        return bounds


class _IntoUnion:
    """A step into a union: columns get its names.  Which input waits for which is settled after the
    shuffle."""

    def __init__(self, branch: Branch) -> None:
        given = [field.qualified for field in branch.union.branches[branch.port].schema]
        own = (field.qualified for field in branch.union.schema)
        self._names = dict(zip(given, own, strict=True))
        self._progressing = {each.field.qualified for each in branch.union.progress}

    def batch(self, batch: Batch) -> Batch:
        return batch.renamed(self._names)

    def progress(self, progress: Progress) -> Progress:
        names = self._names
        bounds = {names[name]: bound for name, bound in progress.bounds.items() if name in names}
        bounds = {name: bound for name, bound in bounds.items() if name in self._progressing}
        high = {names[name]: bound for name, bound in progress.high.items() if name in names}
        return Progress(bounds, high, progress.ended)

    def bounds(self, bounds: Mapping[str, Ints]) -> Mapping[str, Ints]:
        renamed = {self._names[name]: ticks for name, ticks in bounds.items()}
        return {name: ticks for name, ticks in renamed.items() if name in self._progressing}
