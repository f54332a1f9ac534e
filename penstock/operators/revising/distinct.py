"""DISTINCT with late tuples that count: what has been seen is remembered until it is final.

A late tuple is given out if it is the first of its kind, so nothing is ever taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.punctuation import BEGINNING
from penstock.operators.groups.distinct import DistinctOperator
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.revising.amendment import Forgiving
from penstock.physical.asked import Asked
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregates import Distinct


class AmendingDistinct(DistinctOperator):
    def __init__(self, node: Distinct, asked: Asked) -> None:
        super().__init__(node)
        self._names = [each.field.qualified for each in node.progress]
        expressions = [Column.of(each.field) for each in node.progress]
        self._in_time: Forgiving = Forgiving(list(expressions), node.input, asked)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        final = self._in_time.final(progress)
        self._seen.forget(final[0])
        named = zip(self._names, final, strict=True)
        bounds = {} if progress.ended else {name: b for name, b in named if b != BEGINNING}
        yield Progress(bounds, progress.high, progress.ended)
