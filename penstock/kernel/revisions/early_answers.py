"""Early answers of operators that emit final results only: the results that would follow if their
streams ended now.

A second operator is restored from the state of the first, and its streams end.  So an answer costs
as much as all kept state.  Answers stand until a final result differs, or until a bound says that
nothing below it will follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.operator import Item, OpenResults, Operator, Progress, at_once
from penstock.kernel.revisions.amendment import EarlyAnswers
from penstock.kernel.revisions.emitted_rows import Above, apart
from penstock.kernel.state import ChunkStore, MemoryStore, Tree, Within, pack
from penstock.model.arrays import Ints, Mask
from penstock.model.clock import Clock
from penstock.model.punctuation import Bound
from penstock.plan.nodes.node import Node
from penstock.plan.physical import Asked

_EMITTED, _STATE = "said", "of/"  # in the store: early answers, and what the operator keeps


class TrialEnd(EarlyAnswers):
    """Emit early answers of an operator with final results, by ending the streams of a copy."""

    def __init__(
        self, node: Node, make: Callable[[], Operator], clock: Clock, asked: Asked
    ) -> None:
        super().__init__(clock, asked)
        self._make = make
        self._operator = make()
        self._image = _Image()
        self._check = Above.of(asked.above)
        self._schema = node.schema.arrow
        self._types = {each.field.qualified: each.field.type for each in node.progress}
        self._progress = [Progress() for _ in node.inputs]
        self._emitted = pa.RecordBatch.from_pylist([], self._schema)
        self._changed = False  # since answers were given

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        self._changed = True
        yield from self._passed(self._operator.on_batch(port, batch))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._progress[port] = replace(progress, groups=None, joint=())
        yield from self._passed(self._operator.on_progress(port, progress))

    def _passed(self, items: Iterable[Item]) -> Iterator[Item]:
        """Final results, less those that have been emitted early; before them, retractions of early
        answers that have turned out to be wrong."""
        left = [self._not_emitted(item) if isinstance(item, Batch) else item for item in items]
        for item in left:
            if isinstance(item, Progress):
                yield from self._retract(self._below(item))
            elif isinstance(item, Batch) and item.num_rows and not self._types:
                # no bound will ever tell which answers are wrong now
                yield from self._retract(np.ones(self._emitted.num_rows, np.bool_))
        yield from (item for item in left if not isinstance(item, Batch) or item.num_rows)

    def _not_emitted(self, batch: Batch) -> Batch:
        if not self._emitted.num_rows or not batch.num_rows:
            return batch
        stay, fresh = apart(self._emitted, batch.rows)
        self._emitted = self._emitted.take(pa.array(stay))
        return batch.take(fresh)

    def _below(self, progress: Progress) -> Mask:
        """The answers that cannot come any more as final results."""
        said = self._emitted
        if progress.ended or not said.num_rows:
            return np.ones(said.num_rows, np.bool_)
        found = np.zeros(said.num_rows, np.bool_)
        for name, bound in progress.bounds.items():
            found |= self._under(name, bound)
        for each in progress.joint:
            one, other = zip(*each.pair, strict=True)
            found |= self._under(*one) & self._under(*other)
        return found

    def _under(self, name: str, bound: Bound) -> Mask:
        if name not in self._types:
            return np.zeros(self._emitted.num_rows, np.bool_)
        column = self._emitted.column(self._emitted.schema.get_field_index(name))
        below: Mask = to_ticks(column, self._types[name]) < bound
        return below

    def _retract(self, which: Mask) -> Iterator[Item]:
        if which.any():
            yield self._signed(self._emitted, np.flatnonzero(which), -1)
            self._emitted = self._emitted.filter(pa.array(~which))

    def _signed(self, rows: pa.RecordBatch, places: Ints, sign: int) -> Batch:
        return Batch(rows.take(pa.array(places)), np.full(len(places), sign, np.int8))

    # --- early answers ---------------------------------------------------------------------------

    def early(self) -> Iterator[Item]:
        if not self._changed or all(each.ended for each in self._progress):
            return
        self._changed = False
        now = self._results_if_ended()
        wrong, fresh = apart(self._emitted, now)
        if len(wrong):
            yield self._signed(self._emitted, wrong, -1)
        if len(fresh):
            yield self._signed(now, fresh, 1)
        self._emitted = now

    def _results_if_ended(self) -> pa.RecordBatch:
        """The results if the streams ended now: none if one of them has no value, and none of those
        that would fail on their way."""
        self._operator.save(self._image)
        trial, found = self._make(), []
        trial.load(self._image)
        try:
            for port, told in enumerate(self._progress):
                if not told.ended:
                    items = trial.on_progress(port, replace(told, ended=True))
                    found += [each.rows for each in items if isinstance(each, Batch)]
        except RunError:
            found = []
        rows = pa.Table.from_batches(found, self._schema).combine_chunks()
        made = rows.to_batches()[0] if rows.num_rows else self._emitted.slice(0, 0)
        failing = None if self._check is None else self._check.failing(made).failing
        if failing is None or not len(failing):
            return made
        return made.take(pa.array(np.setdiff1d(np.arange(made.num_rows), failing)))

    # --- what is kept ----------------------------------------------------------------------------

    def rows_held(self) -> int:
        return self._operator.rows_held()

    def open_results(self) -> OpenResults:
        return self._operator.open_results()

    def save(self, store: ChunkStore) -> None:
        self._operator.save(self._image)
        self._image.write(Within(store, _STATE))
        store.put(_EMITTED, self._emitted)

    def load(self, store: ChunkStore) -> None:
        said = store.get(_EMITTED)
        if said is not None:
            self._emitted = pa.RecordBatch.from_arrays(said.columns, schema=self._schema)
            self._image.read(Within(store, _STATE))
            self._operator.load(self._image)
            self._changed = True


class _Image(MemoryStore):
    """State of an operator as it has saved it, for the copy that continues from it, with the
    changes since it was last written to another store."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: dict[str, None] = {}  # in the order of the changes

    def put(self, key: str, chunk: Tree) -> None:
        packed = pack(chunk)
        if self.packed.get(key) != packed:
            self.packed[key] = packed
            self._changed[key] = None

    def drop(self, key: str) -> None:
        super().drop(key)
        self._changed[key] = None

    def write(self, store: ChunkStore) -> None:
        for key in self._changed:
            chunk = self.get(key)
            if chunk is None:
                store.drop(key)
            else:
                store.put(key, chunk)
        self._changed = {}

    def read(self, store: ChunkStore) -> None:
        for key in store.names():
            self.put(key, store.get(key))
        self._changed = {}
