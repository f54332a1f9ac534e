"""Buffering: the in-order baseline that WID is measured against (sections 6.1.3.3 and 6.1.5).

Tuples are kept and put in order; a window is computed over its buffered extent when it is complete.
Cost per window: a'·T (Eq. 6.3), or 2·a'·SLIDE·T/RANGE (Eq. 6.4) if results can be subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.errors import PlanError
from penstock.kernel.batch import Batch
from penstock.kernel.grouping.folding import DeadKeys, Folder, Partials, Rows
from penstock.kernel.operator import (
    Base,
    Item,
    LateRows,
    OpenResults,
    Progress,
    at_once,
    open_spans,
)
from penstock.kernel.state import AppendLog, ChunkStore, Within
from penstock.kernel.windows.open_windows import AdoptedPieces, OpenPieces, exported, pieces_of_rows
from penstock.kernel.windows.results import Results
from penstock.kernel.windows.wid import Tagged, Tagger, joined, spans_of
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding

_NOTHING = np.iinfo(np.int64).min  # no bound


class SlidingExtent:
    """Contents of the extents of one window after the other: tuples that enter are added to that of
    the window before, tuples that leave are subtracted (Eq. 6.4)."""

    def __init__(self, folder: Folder, window: Sliding) -> None:
        self._folder = folder
        self._window = window
        self._content = folder.new()
        self._at: Bound = BEGINNING  # the window that the content is of
        self._gone = 0  # how many rows of the buffer are not in it any more

    def to(self, wid: int, buffered: Tagged) -> Partials:
        """The content of a later window; the buffer is in order."""
        left = int(np.searchsorted(buffered.stop, wid, "right"))
        first, rows = buffered.first, buffered.rows
        natural = self._window.wid_bounds(rows.positions)[0] if buffered.raised else first
        before = int(np.searchsorted(natural, self._at, "right")) if self._at != BEGINNING else 0
        end = int(np.searchsorted(natural, wid, "right"))
        if left >= before and not buffered.raised:  # nothing is left of the window before
            self._content, self._gone = self._folder.new(), left
        else:
            self._leave(left, buffered)
        begin = left if buffered.raised else max(left, before)
        entering = rows.slice(begin, end)
        if buffered.raised:
            new = (first[begin:end] > self._at) & (first[begin:end] <= wid)
            entering = entering if new.all() else entering.take(np.flatnonzero(new))
        if len(entering):
            self._folder.fold(self._content, entering)
        self._folder.grow(self._content)
        self._at = wid
        return self._content

    def purge(self, expired: int, buffered: Tagged) -> None:
        """The first rows will not be in the buffer any more."""
        self._leave(expired, buffered)
        self._gone = 0

    def renumber(self, codes: Codes) -> None:
        self._content = self._folder.take(self._content, codes)

    def _leave(self, upto: int, buffered: Tagged) -> None:
        """Subtract the rows before `upto` that are in the content."""
        leaving = buffered.rows.slice(self._gone, max(self._gone, upto))
        inside = buffered.first[self._gone : max(self._gone, upto)] <= self._at
        self._gone = max(self._gone, upto)
        if inside.any():
            leaving = leaving if inside.all() else leaving.take(np.flatnonzero(inside))
            content = self._folder.new()
            self._folder.fold(content, leaving)
            self._folder.grow(self._content)
            self._folder.subtract(self._content, content)


class Buffering(Base):
    """The in-order baseline: keep tuples in order, and fold the extent of each window when it is
    complete.

    With `slack` None, windows are complete when progress says so, and answers are exact.

    With slack, progress is not listened to (but for the end): windows are complete when they end at
    or below the highest value so far minus the slack, in ticks.  A tuple that is later than that is
    dropped from the windows it missed (generous slack) or from all of its windows (`consistent`
    slack); the bound before a tuple follows from the tuples before it, so answers do not depend on
    how batches are cut.  They are the defined ones if the slack covers the disorder.
    """

    def __init__(
        self, node: WindowAggregate, slack: int | None = None, consistent: bool = False
    ) -> None:
        self.node = node
        self.results = Results(node)
        self.slack = slack
        self.consistent = consistent
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.bucket = Tagger(node, self.folder)
        self.buffer: list[Tagged] = []
        self._highest: int | None = None
        self._lowest: Bound = END  # no buffered tuple is in a lower window
        self._next: Bound = BEGINNING  # the first window that has not been released
        self._sliding = (
            SlidingExtent(self.folder, self.bucket.window) if self.folder.differential else None
        )
        self._log = AppendLog("rows")  # tuples as they came; windows below their stop need them
        self._dead = DeadKeys(self.folder)
        self.adopted = AdoptedPieces(self.folder, self.bucket.window)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        tagged, late = self.bucket.tag(batch) if self.slack is None else self._tag(batch.rows)
        if late is not None:
            yield late
        if len(tagged):
            self._keep(tagged)
            self._log.append(tagged.save(), int(tagged.stop.max()))
        if self.slack is not None and self._highest is not None:
            yield from self._release(self._highest - self.slack, ended=False)

    def _keep(self, tagged: Tagged) -> None:
        self.buffer.append(tagged)
        self._lowest = min(self._lowest, int(tagged.first.min()))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if self.slack is None or progress.ended:
            yield from self._release(self.bucket.promised(progress), progress.ended)

    def _tag(self, batch: pa.RecordBatch) -> tuple[Tagged, LateRows | None]:
        """Tag tuples with their windows, like `Tagger.tag`; tuples that the slack has passed are
        late."""
        ticks = self.bucket.ticks(batch)
        before = self._bounds_before(ticks)
        broke = np.flatnonzero(ticks < before)
        return self.bucket.tag_late(batch, ticks, broke, before[broke], self.consistent)

    def _bounds_before(self, ticks: Ints) -> Ints:
        """The highest value before each tuple, minus the slack."""
        assert self.slack is not None
        start = _NOTHING if self._highest is None else self._highest
        highest = np.maximum.accumulate(np.concatenate([[start], ticks]))
        if len(ticks):
            self._highest = int(highest[-1])
        if self.slack > np.iinfo(np.int64).max:
            return np.full(len(ticks), _NOTHING)
        far = highest[:-1] < _NOTHING + self.slack  # then nothing can be below
        return np.where(far, _NOTHING, highest[:-1] - np.where(far, 0, self.slack))

    def _release(self, bound: Bound, ended: bool) -> Iterable[Item]:
        last = self.bucket.last_closed(bound)
        results = self.results
        if self._has_upto(last):
            window = self.bucket.window
            buffered = joined(self.buffer).in_order(window) if self.buffer else None
            for wid, content in self._contents(buffered, last):
                results.add(wid, self.folder.finish(content, self.folder.present(content)))
            self._next = last + 1
            self.adopted.pass_(self._next)
            if buffered is not None:
                self._expire(buffered)
        batch = results.batch()
        if batch is not None:
            yield batch
        self._dead.forget(self._mark, self._renumber)
        yield results.progress(last, ended)

    def rows_held(self) -> int:
        return sum(map(len, self.buffer))

    def _has_upto(self, last: Bound) -> bool:
        """Whether something is in a window that is to be released."""
        if not self.buffer and not self.adopted:
            return False
        return max(min(self._lowest, self.adopted.lowest()), self._next) <= last

    def _contents(self, buffered: Tagged | None, last: Bound) -> Iterator[tuple[int, Partials]]:
        """The windows up to the last one that contain something, one after the other."""
        window = self.bucket.window
        extents = buffered.extents(window, self._next, last) if buffered is not None else iter(())
        if self.adopted:
            yield from self._with_adopted(dict(extents), last)
            return
        for wid, extent in extents:
            if self._sliding is None or buffered is None:
                content = self.folder.new()
                self.folder.fold(content, extent)
            else:
                content = self._sliding.to(wid, buffered)
            yield wid, content

    def _with_adopted(
        self, extents: dict[int, Rows], last: Bound
    ) -> Iterator[tuple[int, Partials]]:
        """Contents of windows while adopted pieces are left; nothing slides until they are gone."""
        for wid in sorted({*extents, *self.adopted.windows(self._next, last)}):
            content = self.adopted.of(wid) or self.folder.new()
            if wid in extents:
                self.folder.fold(content, extents[wid])
            yield wid, content

    def _expire(self, buffered: Tagged) -> None:
        """Keep the tuples that are in windows to come."""
        expired = int(np.searchsorted(buffered.stop, self._next, "right"))
        if self._sliding is not None:
            self._sliding.purge(expired, buffered)
        kept = buffered.take(np.arange(expired, len(buffered)))
        self.buffer, self._lowest = [], END
        if len(kept):
            self._keep(kept)
        self._log.pass_(self._next)

    def open_results(self) -> OpenResults:
        adopted = open_spans(*self.adopted.spans(self._next))
        return adopted | open_spans(*spans_of(self.buffer, self._next))

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        for each in self.buffer:
            live[each.rows.codes] = True
        self.adopted.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        self.buffer = [each.renumbered(place) for each in self.buffer]
        if self._sliding is not None:
            self._sliding.renumber(codes)
        self.adopted.renumber(codes, place)
        self._log.begin_anew()

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self._log.save(store, lambda: [(each.save(), int(each.stop.max())) for each in self.buffer])
        self.adopted.save(Within(store, "adopted/"))
        registers = {"next": self._next, "highest": self._highest}
        store.put("run", {**registers, "results": self.results.save()})

    def load(self, store: ChunkStore) -> None:
        """The content of the window before is folded again when the next one is released."""
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self._next, self._highest = saved["next"], saved["highest"]
        for piece in map(Tagged.load, self._log.load(store)):
            kept = piece.take(np.flatnonzero(piece.stop > self._next))
            if len(kept):
                self._keep(kept)
        self.results.load(saved["results"])
        self.adopted.load(Within(store, "adopted/"), self._next)

    def export(self) -> OpenPieces:
        self._refuse_slack()
        pieces = [self.adopted.pieces(self._next)]
        if self.buffer:
            kept = joined(self.buffer)
            last = kept.stop - 1
            pieces.append(pieces_of_rows(self.folder, kept.rows, kept.first, last, self._next))
        return exported(self.folder, chain(*pieces), self._next, self.results)

    def adopt(self, state: OpenPieces) -> None:
        self._refuse_slack()
        self._next = state.released
        self.adopted.adopt(state)
        self.results.load(state.highest)

    def _refuse_slack(self) -> None:
        """Reject an exchange of state where slack closes windows, by other rules."""
        if self.slack is not None:
            raise PlanError(
                "a buffer with slack stands for no other algorithm",
                expected="one without slack, which closes windows as progress says",
            )
