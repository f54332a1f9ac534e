"""Landmark windows (RANGE ALL): one running result, and the tuples that join it at each later slide
step.

A tuple is folded into the step of the first window that it counts in; a late tuple joins at the
first window above the bound that it broke.  Releasing a window merges one step into the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import Folder, Partials, Rows
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once, open_spans
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.panes import Panes
from penstock.kernel.windows.results import Missed, Results, promised
from penstock.model.arrays import Ints, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import MOST_WINDOWS, Landmark, too_many

_BLOCK = 4096  # groups whose running results are saved together


class LandmarkOperator(Base):
    """Landmark windows: keep the running result and the steps that join it later."""

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Landmark)
        assert node.attribute is not None
        self.node = node
        self.window = node.window
        self.attribute_type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.running = RunningContent(self.folder)  # over all windows that have been released
        self.steps = Panes(self.folder)  # by the window that they join at
        self.high: Bound = BEGINNING  # how far the stream has come
        self.next_window: int | None = None  # the first not yet released, once there was one
        self._shown: list[pa.Array] = []  # the results of the window before

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        ticks = to_ticks(self._attribute(batch.rows), self.attribute_type)
        joins_at = self.window.first_wid(ticks)
        if batch.broken is not None:
            missed = self._join_later(batch, joins_at)
            if missed is not None:
                yield missed.late_rows(
                    batch.rows, self.attribute_type, self.node.schema.fields[0].type
                )
        self.high = max(self.high, int(ticks.max()))
        for step, rows in runs_of(self.folder.rows(batch.rows, ticks), joins_at):
            self.folder.fold(self.steps.open(step), rows)

    def _join_later(self, batch: Batch, joins_at: Ints) -> Missed | None:
        """Let late tuples join at the first window that closes above their bound."""
        broke, bounds = self._bound.broken(batch)
        first, open_ = joins_at[broke], self.window.first_wid(bounds)
        missing = open_ > first
        if not missing.any():
            return None
        late, open_ = broke[missing], open_[missing]
        joins_at[late] = open_
        return Missed(late, bounds[missing], first[missing], open_ - 1)

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound, as far as the stream has come: a
        bound may be ahead of it, and whether those windows come about is not known yet."""
        self.high = max(self.high, self._bound.reached(progress))
        closed = self._last_closed(self._bound.promised(progress))
        if self.high != BEGINNING:
            reached = (int(self.high) - self.window.origin) // self.window.slide
            yield from self._release(min(closed, reached))
        first = self._first()
        next_window = closed + 1 if first is None else min(closed + 1, first)
        yield promised(self.window, next_window, self.next_window, progress.ended)

    def _first(self) -> int | None:
        """The first window that has not been released, if it is known."""
        return self.steps.lowest() if self.next_window is None else self.next_window

    def _last_closed(self, bound: Bound) -> Bound:
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.window.origin) // self.window.slide - 1

    def _release(self, last: Bound) -> Iterator[Item]:
        first = self._first()
        if first is None or first > last:
            return
        last_ = int(last)
        steps = self.steps.between(first, last_ + 1)
        refuse_gaps(self.node, first, steps, last_, MOST_WINDOWS)
        results = Results(self.node)
        for window, next_ in pairwise([*({first} - set(steps)), *steps, last_ + 1]):
            step = self.steps.get(window)
            if step is not None:
                self.running.merge(step)
                self.steps.drop(window)
                self._shown = self.running.results()
            yield from results.repeat(window, next_, self._shown)
        self.next_window = last_ + 1
        batch = results.batch()
        if batch is not None:
            yield batch

    def open_results(self) -> OpenResults:
        first = self._first()
        if first is None or self.high == BEGINNING:
            return open_spans()
        reached = (int(self.high) - self.window.origin) // self.window.slide
        return open_spans((first, max(reached, self.steps.highest() or reached) + 1))

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.steps.save(store)
        self.running.save(store)
        store.put("run", {"next": self.next_window, "high": self.high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.steps.load(store)
        self.running.load(store)
        self.next_window, self.high = saved["next"], saved["high"]
        if self.next_window is not None:
            self._shown = self.running.results()


class RunningContent:
    """Partial results that live for ever: a save writes the blocks of groups that have changed."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._content = folder.new()
        self._touched: set[int] = set()

    def merge(self, step: Partials) -> None:
        self._folder.merge(self._content, step)
        self._touched.update(np.unique(np.flatnonzero(step.rows.rows) // _BLOCK).tolist())

    def results(self) -> list[pa.Array]:
        return self._folder.finish(self._content, self._folder.present(self._content))

    def save(self, store: ChunkStore) -> None:
        for block in self._touched:
            rows = self._content.rows.rows[block * _BLOCK : (block + 1) * _BLOCK]
            codes = np.flatnonzero(rows) + block * _BLOCK
            content = self._folder.take(self._content, codes)
            store.put(f"running/{block}", self._folder.save(content, codes))
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        for name in store.names():
            if name.startswith("running/"):
                self._folder.merge(self._content, self._folder.load(store.get(name)))


def refuse_gaps(node: WindowAggregate, first: int, steps: list[int], last: int, most: int) -> None:
    """Reject streams with too many windows: all windows from the first to the last are emitted, but
    most of them should have a tuple that the one before has not."""
    if last - first < most:
        return
    for begin, end in pairwise([first, *steps, last + 1]):
        if end - begin > most:
            assert isinstance(node.window, Landmark)
            raise too_many(end - begin, node.domain.format(node.window.bounds(end - 1)[1]), most)


def runs_of(rows: Rows, numbers: Ints) -> Iterator[tuple[int, Rows]]:
    """The rows of each different number."""
    if len(numbers) == 0:
        return
    if (np.diff(numbers) < 0).any():
        order = stable_order(numbers)
        numbers, rows = numbers[order], rows.take(order)
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    if len(cuts) == 0:
        yield int(numbers[0]), rows
        return
    begin = 0
    for end in [*cuts.tolist(), len(numbers)]:
        yield int(numbers[begin]), rows.slice(begin, end)
        begin = end
