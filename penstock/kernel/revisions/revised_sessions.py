"""Session windows whose results may be revised: a late tuple may merge two that have been emitted.

Sessions are kept until they are final.  The rows emitted for each are remembered under its number,
so a session that is absorbed, or extended, is retracted as it was emitted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import DeadKeys, Folder
from penstock.kernel.operator import Item, OpenResults, Progress, at_once
from penstock.kernel.revisions.amendment import EarlyAnswers, Forgiving
from penstock.kernel.revisions.emitted_rows import Above, Emitted, Groups, joined, provisional
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.sessions import OpenSessions, promised, session_rows
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import Session

_NONE: Ints = np.zeros(0, np.int64)


class RevisingSessions(EarlyAnswers):
    """Session windows with early answers and late tuples that count."""

    def __init__(self, node: WindowAggregate, asked: Asked, clock: Clock) -> None:
        super().__init__(clock, asked)
        assert isinstance(node.window, Session)
        assert node.attribute is not None
        self.node = node
        self.final_only = asked.final_only
        self._answers_early = asked.answers_early
        self._id_type = node.schema.fields[0].type
        self._in_time = Forgiving([node.attribute], node.input, asked)
        self._check = Above.of(asked.above)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.sessions = OpenSessions(self.folder, node.window)
        self._dead = DeadKeys(self.folder)
        self._emitted = Emitted()
        self._failing: Ints = _NONE  # sessions whose results have no value at present
        self._changed: Ints = _NONE  # since the last early answer
        self._bound: Bound = BEGINNING  # sessions that end up to it are out
        self._final: Bound = BEGINNING
        self.high: Bound = BEGINNING

    # --- items -----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, (ticks,), late = self._in_time.split(batch, self._id_type)
        yield from late
        if given.num_rows == 0:
            return
        changed, absorbed = self.sessions.take_in(self.folder.rows(given, ticks))
        if self._answers_early:
            left = np.setdiff1d(self._changed, absorbed)
            self._changed = np.union1d(left, changed)
        out = self._ended(changed, self._bound)
        # a session that is extended beyond the bound is open again
        again = changed if not self._answers_early else changed[out]
        yield from self._emit(changed[out], np.concatenate([again, absorbed]))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (final,) = self._in_time.final(progress)
        (bound,) = [final] if self.final_only else self._in_time.promised(progress)
        ended = self.sessions.ended(bound)
        ends = self.sessions.ends(ended)
        fresh = ended[ends > self._bound] if self._bound != BEGINNING else ended
        done = ended[self._ended(ended, final)]
        self._bound, self._final = bound, final
        # a result that has no value is an error once it is final
        fresh = np.union1d(fresh, np.intersect1d(self._failing, done))
        yield from self._emit(fresh, fresh)
        self._forget(done)
        yield promised(final, self.high, progress.ended)

    def early(self) -> Iterator[Item]:
        """Emit provisional results of the sessions that have changed since the last call."""
        changed, self._changed = self._changed, _NONE
        yield from self._emit(changed, changed)

    def _ended(self, numbers: Ints, bound: Bound) -> Mask:
        if bound in (BEGINNING, END):
            return np.full(len(numbers), bound == END)
        return self.sessions.ends(numbers) <= int(bound)

    def _emit(self, numbers: Ints, among: Ints) -> Iterator[Item]:
        """Emit the results of sessions, instead of all rows emitted so far for those `among`
        some."""
        if len(among) == 0:
            return
        numbers, among = np.sort(numbers), np.unique(among)
        made = provisional(self._finish, numbers)
        if made.error is not None and self._ended(made.failing, self._final).any():
            raise made.error
        self._failing = np.union1d(np.setdiff1d(self._failing, among), made.failing)
        taken, given = self._emitted.revise(Groups(*made), among)
        if len(given):
            self.high = max(self.high, int(self.sessions.ends(given.codes).max()))
            given = given.in_order(self.sessions.leaving(given.codes))
        said = [(each, sign) for each, sign in ((taken, -1), (given, 1)) if each is not None]
        signs = np.concatenate([np.full(len(each), sign, np.int8) for each, sign in said])
        if len(signs):
            columns = joined([each for each, _ in said]).columns
            rows = pa.RecordBatch.from_arrays(columns, schema=self.node.schema.arrow)
            batch = Batch(rows, signs)
            yield batch.positive() if self.final_only else batch

    def _finish(self, numbers: Codes) -> list[pa.Array]:
        """The rows of sessions; fails if one of them has no value or fails in the steps above."""
        rows = session_rows(self.node, self.sessions, numbers)
        if self._check is not None:
            self._check.attempt(rows)
        columns: list[pa.Array] = rows.columns
        return columns

    def _forget(self, done: Ints) -> None:
        if len(done) == 0:
            return
        self._emitted.revise(Groups(_NONE, self._finish(_NONE)), np.sort(done))
        self._changed = np.setdiff1d(self._changed, done)
        self.sessions.drop(done)
        self._renumber(self.sessions.tidy())
        self._dead.forget(
            self.sessions.mark, lambda _, place: self._renumber(self.sessions.renumber(place))
        )

    def _renumber(self, place: Ints | None) -> None:
        if place is not None:
            self._emitted.renumber(place)
            self._changed, self._failing = place[self._changed], place[self._failing]

    def open_results(self) -> OpenResults:
        """Sessions that have not been emitted, and those that have no value so far."""
        failing = int(np.count_nonzero(self._ended(self._failing, self._bound)))
        return OpenResults(others=self.sessions.ending_above(self._bound) + failing)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.sessions.save(store)
        store.put(
            "run",
            {
                "said": self._emitted.save(),
                "failing": self._failing,
                "changed": self._changed,
                "bounds": [self._bound, self._final, self.high],
            },
        )

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.sessions.load(store)
        self._emitted, self._failing = Emitted.load(saved["said"]), saved["failing"]
        self._changed = saved["changed"]
        self._bound, self._final, self.high = saved["bounds"]
