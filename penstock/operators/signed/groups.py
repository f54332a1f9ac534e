"""GROUP BY with a progressing key over signed items: they are kept until their group is complete,
and folded if nothing in it has taken them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Ints, Mask
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.groups.grouped import (
    as_batch,
    first_alone,
    leaving_order,
    lowest_of,
    not_above,
)
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.lineage import happening_order
from penstock.operators.signed.net_extents import matched
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.state.chunks import ChunkStore


class SignedGroups(Base):
    def __init__(self, node: GroupAggregate, asked: Asked | None = None) -> None:
        self.schema = node.schema.arrow
        self._names = [each.field.qualified for each in node.progress]
        expressions = list(node.completing)
        self._waits = node.counted and len(expressions) > 1
        self._in_time = in_time_of(expressions, node.input, asked)
        self._position_type = node.position.type
        self._position = compile_expression(node.position, node.input.schema)
        self._folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._items = KeptItems(node.input.schema.arrow, tags=len(expressions))
        self._high: list[Bound] = [BEGINNING] * len(expressions)  # of what has been released

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split_signed(batch)
        yield from late
        positions = to_ticks(self._position(given.rows), self._position_type)
        self._items.add(given, positions, list(keys))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bounds = self._in_time.final(progress)
        due = self._below(first_alone(bounds) if self._waits else bounds)
        if due.any():
            yield from self._folded(np.flatnonzero(due))
            self._items.remove(due)
        named = zip(self._names, self._high, strict=True)
        high = {name: bound for name, bound in named if bound != BEGINNING}
        if progress.ended:
            yield Progress({}, high, ended=True)
            return
        if self._waits:
            everything = np.ones(len(self._items), np.bool_)
            bounds = not_above(bounds, [lowest_of(self._items.tags, everything)])
        promised = zip(self._names, bounds, strict=True)
        yield Progress({name: b for name, b in promised if b != BEGINNING}, high)

    def _below(self, bounds: list[Bound]) -> Mask:
        """The items of groups that have come to lie below a bound."""
        due = np.zeros(len(self._items), np.bool_)
        for ticks, bound in zip(self._items.tags, bounds, strict=True):
            due |= ticks < bound
        return due

    def _folded(self, places: Ints) -> Iterator[Item]:
        items = self._items
        places = places[
            happening_order(items.ticks[places], items.signs[places], items.lineage[places])
        ]
        folder = copy(self._folder)
        folder.keys = folder.keys.empty()  # the groups are complete, and do not come again
        groups = folder.codes(items.batch(places).rows)
        _, taken = matched(groups, items.signs[places], items.lineage[places])
        there = items.signs[places] > 0
        there[taken] = False
        left = places[there]
        if not len(left):
            return
        rows = folder.rows(items.batch(left).rows, items.ticks[left])
        partials = folder.new()
        folder.fold(partials, rows)
        codes = np.flatnonzero(partials.rows.rows)
        ticks = np.zeros((len(self._high), len(folder.keys)), np.int64)
        ticks[:, rows.codes] = items.tags[:, left]
        codes = codes[leaving_order(codes, ticks[0], folder)]
        self._high = [
            max(high, int(own[codes].max())) for high, own in zip(self._high, ticks, strict=True)
        ]
        yield Batch(as_batch(folder.finish(partials, codes), self.schema))

    def rows_held(self) -> int:
        return len(self._items)

    def open_results(self) -> OpenResults:
        """Items that wait for their groups to be complete."""
        return OpenResults(others=len(self._items))

    def save(self, store: ChunkStore) -> None:
        self._items.save(store)
        store.put("run", {"high": self._high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._items.load(store)
            self._high = saved["high"]
