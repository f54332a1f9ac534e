"""GROUP BY with a key that progresses, whose results may be revised until they are final."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.groups.group_by import first_alone, leaving_order, lowest_of, not_above
from penstock.kernel.operator import Item, OpenResults, Progress, at_once
from penstock.kernel.revisions.amendment import EarlyAnswers, Forgiving
from penstock.kernel.revisions.emitted_rows import (
    Above,
    Emitted,
    Groups,
    joined,
    provisional,
    signed,
    typed,
)
from penstock.kernel.state import ChunkStore, Slices, required
from penstock.model.arrays import Codes, Ints, Mask, different
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import GroupAggregate
from penstock.plan.physical import Asked


class RevisingGroups(EarlyAnswers):
    """GROUP BY with early answers and late tuples that count: a group whose result changes is
    retracted and replaced."""

    def __init__(self, node: GroupAggregate, asked: Asked, clock: Clock) -> None:
        super().__init__(clock, asked)
        self.node = node
        self.schema = node.schema.arrow
        self.final_only = asked.final_only
        self.answers_early = asked.answers_early
        self._names = [each.field.qualified for each in node.progress]
        expressions = list(node.completing)
        self._waits = node.counted and len(expressions) > 1
        self._in_time = Forgiving(expressions, node.input, asked)
        self._position_type = node.position.type
        self._position = compile_expression(node.position, node.input.schema)
        folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        above = Above.of(asked.above)
        self._slices = Slices(lambda: _RevisedSlice(folder, len(expressions), above))
        self.high: list[Bound] = [BEGINNING] * len(expressions)  # of what has been released

    # --- items -----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split(batch)
        yield from late
        for groups, part, ticks in self._slices.parts(given, keys):
            positions = to_ticks(self._position(part), self._position_type)
            touched = groups.fold(part, ticks, positions)
            out = groups.out[touched]
            if self.answers_early:
                groups.changes.append(touched[~out])
            yield from self._emit(groups, touched[out], self._in_time.nothing_final)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        final = self._in_time.final(progress)
        bounds = final if self.final_only else self._in_time.promised(progress)
        leaving = first_alone(bounds) if self._waits else bounds
        for groups in self._slices.upto(bounds[0] if len(bounds) == 1 else END):
            yield from self._emit(groups, groups.complete(leaving), final)
            # a result that has no value is an error once it is final
            yield from self._emit(groups, groups.failing_below(final), final)
        self._slices.forget(final[0])
        named = zip(self._names, self.high, strict=True)
        high = {name: bound for name, bound in named if bound != BEGINNING}
        if self._waits:
            final = not_above(final, [each.lowest_waiting() for each in self._slices.upto(END)])
        promised = {} if progress.ended else dict(zip(self._names, final, strict=True))
        bounded = {name: bound for name, bound in promised.items() if bound != BEGINNING}
        yield Progress(bounded, high, progress.ended)

    def early(self) -> Iterator[Item]:
        """Emit provisional results of the groups that have changed since the last call."""
        for groups in self._slices.upto(END):
            if groups.changes:
                touched = different(np.concatenate(groups.changes))
                groups.changes = []
                self._slices.touch(groups)
                early = touched[~groups.out[touched]]
                yield from self._emit(groups, early, self._in_time.nothing_final)

    def open_results(self) -> OpenResults:
        """Groups that have not been emitted, and those that have no value so far."""
        return OpenResults(others=sum(groups.not_given for groups in self._slices.upto(END)))

    def save(self, store: ChunkStore) -> None:
        self._slices.save(store)
        store.put("run", self.high)

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._slices.load(store)
            self.high = saved

    def _emit(self, groups: _RevisedSlice, codes: Codes, final: list[Bound]) -> Iterator[Item]:
        """Emit the results of groups; below a `final` bound nothing can change them any more."""
        if len(codes) == 0:
            return
        self._slices.touch(groups)
        taken, given = groups.shown.revise(groups.results(codes, self.schema, final), codes)
        if len(given):
            for place, ticks in enumerate(groups.ticks):
                self.high[place] = max(self.high[place], int(ticks[given.codes].max()))
        said = [(each, sign) for each, sign in ((taken, -1), (given, 1)) if each is not None]
        signs = np.concatenate([np.full(len(each), sign, np.int8) for each, sign in said])
        if len(signs):
            rows = joined([each.in_order(groups.leaving(each.codes)) for each, _ in said])
            columns = [*groups.folder.keys.take(rows.codes), *rows.columns]
            batch = signed(columns, self.schema, signs)
            yield batch.positive() if self.final_only else batch


class _RevisedSlice:
    """The groups of one slice: their progressing keys, partial results, which of them have been
    released, and the rows emitted for them."""

    def __init__(self, folder: Folder, progressing: int, above: Above | None) -> None:
        self.folder = copy(folder)
        self._check = above
        self.folder.keys = folder.keys.empty()
        self.partials = self.folder.new()
        self.ticks: Ints = np.zeros((progressing, 0), np.int64)
        self.out: Mask = np.zeros(0, np.bool_)
        self.shown = Emitted()
        self.failing: Codes = np.zeros(0, np.int64)  # groups whose results have no value at present
        self.changes: list[Codes] = []  # groups that tuples came to since the last early answer
        self.waiting = 0  # groups that are not out

    def __len__(self) -> int:
        return len(self.folder.keys)

    def fold(self, batch: pa.RecordBatch, ticks: Ints, positions: Ints) -> Codes:
        """Fold tuples; return their groups, each once."""
        before = len(self)
        rows = self.folder.rows(batch, positions)
        self.folder.fold(self.partials, rows)
        if self.ticks.shape[1] < len(self):
            self.ticks = np.stack([grown(each, len(self), 0) for each in self.ticks])
            self.out = grown(self.out, len(self), False)
        self.ticks[:, rows.codes] = ticks
        self.waiting += len(self) - before
        return different(rows.codes)

    def complete(self, bounds: list[Bound]) -> Codes:
        """Groups that now lie below a bound."""
        if self.waiting == 0:
            return np.zeros(0, np.int64)
        passed = self._below(bounds, np.arange(len(self)))
        passed &= ~self.out[: len(self)]
        self.out[: len(self)] |= passed
        codes = np.flatnonzero(passed)
        self.waiting -= len(codes)
        return codes

    def lowest_waiting(self) -> list[Bound]:
        """The lowest of each progressing key among the groups that are not out."""
        return lowest_of(self.ticks[:, : len(self)], ~self.out[: len(self)])

    @property
    def not_given(self) -> int:
        return self.waiting + int(np.count_nonzero(self.out[self.failing]))

    def leaving(self, codes: Codes) -> Ints:
        return leaving_order(codes, self.ticks[0], self.folder)

    def _below(self, bounds: list[Bound], codes: Codes) -> Mask:
        """Mask of the groups that lie below a bound."""
        passed = np.zeros(len(codes), np.bool_)
        for ticks, bound in zip(self.ticks, bounds, strict=True):
            if bound == END:
                passed[:] = True
            elif bound != BEGINNING:
                passed |= ticks[codes] < int(bound)
        return passed

    def results(self, codes: Codes, schema: pa.Schema, final: list[Bound]) -> Groups:
        made = provisional(lambda some: self._finish(some, schema), codes)
        if made.error is not None and self._below(final, made.failing).any():
            raise made.error
        self.failing = np.union1d(np.setdiff1d(self.failing, codes), made.failing)
        return Groups(*made)

    def _finish(self, codes: Codes, schema: pa.Schema) -> list[pa.Array]:
        """The results of groups, if all of them have some and none fails on its way."""
        columns = typed(self.folder.finish(self.partials, codes), schema.types)
        if self._check is not None:
            self._check.attempt(pa.RecordBatch.from_arrays(columns, schema=schema))
        return columns[len(self.folder.keys.columns) :]

    def failing_below(self, final: list[Bound]) -> Codes:
        return self.failing[self._below(final, self.failing)]

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        size = len(self)
        store.put(
            "groups",
            {
                "ticks": self.ticks[:, :size],
                "out": self.out[:size],
                "partials": self.folder.save(self.partials),
                "shown": self.shown.save(),
                "failing": self.failing,
                "changes": self.changes,
            },
        )

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        saved = required(store, "groups")
        self.ticks, self.out, self.changes = saved["ticks"], saved["out"], saved["changes"]
        self.partials = self.folder.load(saved["partials"])
        self.shown, self.failing = Emitted.load(saved["shown"]), saved["failing"]
        self.waiting = int(np.count_nonzero(~self.out))
