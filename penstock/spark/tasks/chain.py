"""Stateless steps in a row, for batches with the sub-sources of their rows, and for progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_predicate
from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.operators.bounds import bound_name
from penstock.operators.operator import Operator, Progress
from penstock.operators.stateless.project import ProjectOperator
from penstock.operators.stateless.stamp import StampOperator
from penstock.plan.stateless import Filter, Project, Stamp
from penstock.spark.plan.stages import Branch, Step

Arrays: TypeAlias = list[Ints]
_OnBatch: TypeAlias = Callable[[pa.RecordBatch, Arrays], tuple[pa.RecordBatch, Arrays]]
_OnProgress: TypeAlias = Callable[[Progress], Progress]


class Chain:
    def __init__(self, steps: Sequence[Step], clock: Clock) -> None:
        self._steps = [_compiled(step, clock) for step in steps]

    def batch(self, batch: pa.RecordBatch, beside: Arrays) -> tuple[pa.RecordBatch, Arrays]:
        """The rows that come through, with what `beside` has for each of them."""
        for on_batch, _ in self._steps:
            if batch.num_rows == 0:
                break
            batch, beside = on_batch(batch, beside)
        return batch, beside

    def progress(self, progress: Progress) -> Progress:
        for _, on_progress in self._steps:
            progress = on_progress(progress)
        return progress


def _compiled(step: Step, clock: Clock) -> tuple[_OnBatch, _OnProgress]:
    match step:
        case Filter():
            return _filter(step), lambda progress: progress
        case Project():
            return _through(ProjectOperator(step))
        case Stamp():
            return _through(StampOperator(step, clock))
        case Branch():
            return _branch(step)


def _filter(node: Filter) -> _OnBatch:
    holds = compile_predicate(node.predicate, node.input.schema)

    def on_batch(batch: pa.RecordBatch, beside: Arrays) -> tuple[pa.RecordBatch, Arrays]:
        mask = np.asarray(holds(batch))
        if mask.all():
            return batch, beside
        return batch.filter(pa.array(mask)), [array[mask] for array in beside]

    return on_batch


def _through(operator: Operator) -> tuple[_OnBatch, _OnProgress]:
    """An operator that yields as many rows as it is given, in the same order."""

    def on_batch(batch: pa.RecordBatch, beside: Arrays) -> tuple[pa.RecordBatch, Arrays]:
        made = [each for each in operator.on_batch(0, batch) if isinstance(each, pa.RecordBatch)]
        return made[0], beside

    def on_progress(progress: Progress) -> Progress:
        (made,) = operator.on_progress(0, progress)
        assert isinstance(made, Progress)
        return made

    return on_batch, on_progress


def _branch(branch: Branch) -> tuple[_OnBatch, _OnProgress]:
    given = [field.qualified for field in branch.union.branches[branch.port].schema]
    names = dict(zip(given, (field.qualified for field in branch.union.schema), strict=True))
    beside_names = {bound_name(old): bound_name(new) for old, new in names.items()}
    progressing = {each.field.qualified for each in branch.union.progress}

    def on_batch(batch: pa.RecordBatch, beside: Arrays) -> tuple[pa.RecordBatch, Arrays]:
        renamed = [*names.values()]
        renamed += [beside_names.get(name, name) for name in batch.schema.names[len(names) :]]
        return batch.rename_columns(renamed), beside

    def on_progress(progress: Progress) -> Progress:
        bounds = {names[name]: bound for name, bound in progress.bounds.items() if name in names}
        bounds = {name: bound for name, bound in bounds.items() if name in progressing}
        high = {names[name]: bound for name, bound in progress.high.items() if name in names}
        return Progress(bounds, high, progress.ended)

    return on_batch, on_progress
