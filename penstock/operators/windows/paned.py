"""Paned-WID: tuples are folded into panes that do not overlap, windows are made of panes.

A pane is as long as the greatest common divisor of RANGE and SLIDE, so that every window is a whole
number of panes.  A differential aggregate slides: panes that enter are merged, panes that leave are
subtracted.  Others are merged from blocks (see `panes/contents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.expressions.alone import compile_alone
from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.folder import Folder, Partials, Rows
from penstock.operators.folding.key_expiry import DeadKeys, mark_groups
from penstock.operators.folding.small_batches import SmallBatches
from penstock.operators.open_results import OpenResults, open_spans
from penstock.operators.operator import Base, Item, Progress
from penstock.operators.stride import Stride
from penstock.operators.ticks import to_tick, to_ticks
from penstock.operators.windows.panes.contents import (
    FEW,
    LatePanes,
    Panes,
    Unchanged,
    contents_over,
)
from penstock.operators.windows.panes.many import ManyPanes
from penstock.operators.windows.panes.partial import PartialPanes
from penstock.operators.windows.panes.shape import PaneShape
from penstock.operators.windows.pieces.adopted import taken_in
from penstock.operators.windows.pieces.exporting import exported, pieces_of_panes
from penstock.operators.windows.pieces.open_pieces import OpenPieces
from penstock.operators.windows.results import Missed, Results
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Tree
from penstock.windows.columns import extreme_quotients, floor_div, quotient
from penstock.windows.sliding import Sliding

_NARROW = {1: np.uint8, 2: np.uint16}  # by bytes: sorted by counting, which is much faster


class Paned(Base):
    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self.node = node
        self.results = Results(node)
        self.window = node.window
        self.attribute_type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._attribute_of = compile_alone(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.pane = gcd(self.window.range, self.window.slide)
        self.per_window = self.window.range // self.pane
        self.per_slide = self.window.slide // self.pane
        self.panes = Panes(self.folder)
        self.contents = contents_over(self.folder, self.panes)
        self.next_window: int | None = None  # the first that has not been released
        self._told: Bound | None = None  # the last window that progress has closed
        self._dead = DeadKeys(self.folder)
        self.waiting = SmallBatches()
        # those of large batches, until they leave or have to be panes of their own
        self._many = ManyPanes(self.folder, [], self._shape) if type(self) is Paned else None
        self.stragglers: list[LatePanes] = []

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.broken is None:
            for ready in self.waiting.add(batch):
                self._take_in_all(ready)
            return []
        self._settle()
        in_time, ticks, late = self._set_late_aside(batch, self._ticks(batch.rows))
        self._take_in(in_time, ticks)
        if late is None:
            return []
        id_type = self.node.schema.fields[0].type
        return [late.late_rows(batch.rows, self.attribute_type, id_type)]

    def _settle(self) -> None:
        """Nothing is to wait any longer."""
        for batch in self.waiting.take():
            self._take_in_all(batch)

    def _take_in_all(self, batch: Batch) -> None:
        if batch.form is None or self._attribute_of is None:
            self._take_in(batch.rows, self._ticks(batch.rows))
            return
        tick = to_tick(self._attribute_of(batch.values), self.attribute_type)
        if self.window.covers(tick):
            pane = quotient(tick, plus=-self.window.origin, by=self.pane)
            self.folder.fold(self.panes.open(pane), self.folder.row(batch, tick))

    def _ticks(self, batch: pa.RecordBatch) -> Ints:
        return to_ticks(self._attribute(batch), self.attribute_type)

    def _take_in(self, batch: pa.RecordBatch, ticks: Ints) -> None:
        inside = self.window.covered(ticks)
        if inside is not None:
            batch, ticks = batch.filter(pa.array(inside)), ticks[inside]
        if batch.num_rows:
            self._fold(self.folder.rows(batch, ticks), ticks)

    def _fold(self, rows: Rows, ticks: Ints) -> None:
        first, last = extreme_quotients(ticks, plus=-self.window.origin, by=self.pane)
        if first == last:
            self.folder.fold(self.panes.open(first), rows)
            return
        panes = floor_div(ticks, plus=-self.window.origin, by=self.pane)
        if self._many is not None and self._many.worth_it(len(panes), first, last):
            self._many.fold(rows, panes)
            return
        narrow = _NARROW.get((last - first).bit_length() + 7 >> 3)
        if narrow is not None:
            panes = (panes - first).astype(narrow)
        order = stable_order(panes)
        panes, rows = panes[order], rows.take(order)
        cuts = np.flatnonzero(panes[1:] != panes[:-1]) + 1
        offset = first if narrow is not None else 0
        begin = 0
        for end in [*cuts.tolist(), len(panes)]:
            pane = self.panes.open(int(panes[begin]) + offset)
            self.folder.fold(pane, rows.slice(begin, end))
            begin = end

    def _set_late_aside(
        self, batch: Batch, ticks: Ints
    ) -> tuple[pa.RecordBatch, Ints, Missed | None]:
        """Tuples that broke the promise and miss windows: they count in the windows that they do
        not miss, one by one."""
        broke, bounds = self._bound.broken(batch)
        first, stop = self.window.wid_bounds(ticks[broke])
        # the first window that closes above the bound
        open_ = floor_div(bounds, plus=-self.window.origin, by=self.window.slide)
        missing = (open_ > first) & (first < stop)
        if not missing.any():
            return batch.rows, ticks, None
        late, open_ = broke[missing], np.minimum(open_[missing], stop[missing])
        self._count_apart(batch.rows.take(pa.array(late)), ticks[late], open_, stop[missing])
        kept = np.ones(len(ticks), np.bool_)
        kept[late] = False
        missed = Missed(late, bounds[missing], first[missing], open_ - 1)
        return batch.rows.filter(pa.array(kept)), ticks[kept], missed

    def _count_apart(self, batch: pa.RecordBatch, ticks: Ints, open_: Ints, stop: Ints) -> None:
        """Let tuples count in the windows from `open_` to before `stop`, beside the panes."""
        counting = np.flatnonzero(open_ < stop)
        spans = np.stack([open_[counting], stop[counting] - 1])
        rows = self.folder.rows(batch.take(pa.array(counting)), ticks[counting])
        for first, last in np.unique(spans, axis=1).T.tolist():
            own = rows.take(np.flatnonzero((spans[0] == first) & (spans[1] == last)))
            codes, groups = np.unique(own.codes, return_inverse=True)
            partials = self.folder.folded(replace(own, codes=groups), len(codes))
            self.stragglers.append(LatePanes(first, last, codes, partials))

    def on_partials(self, saved: Tree, bounds_of: Callable[[Ints], Ints]) -> int:
        """Take in panes that were begun elsewhere.  No tuple of a pane misses a window that another
        one of its sub-source does not: windows are whole panes."""
        made = PartialPanes.load(saved, self.folder)
        bounds = bounds_of(made.places)
        open_ = floor_div(bounds, plus=-self.window.origin, by=self.window.slide)
        codes = self.folder.keys.encode(made.keys, len(made))
        in_time = not (open_ > made.panes // self.per_slide).any()
        if in_time and self._many is not None and self._many.takes(made, codes):
            return 0
        late = 0
        for begin, end in made.runs():
            pane, own = int(made.panes[begin]), np.arange(begin, end)
            first, stop = pane // self.per_slide, (pane + self.per_window) // self.per_slide
            partials = self.folder.take_apart(made.partials, own)
            from_ = int(open_[begin])
            if from_ <= first:
                spread = self.folder.spread(partials, codes[own])
                self.folder.merge(self.panes.open(pane), spread)
                continue
            late += int(partials.rows.rows.sum())
            if from_ < stop:
                self.stragglers.append(LatePanes(from_, stop - 1, codes[own], partials))
        return late

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound, and forget what they alone needed."""
        results = self.results
        bound = self._bound.promised(progress)
        last = self._last_closed(bound)
        if last == self._told and not progress.ended:
            return []  # tuples since then are in later windows
        self._told = last
        self._settle()
        items = self._release_many(last)
        unchanged: Unchanged | None = None
        window = self._next_with_tuples()
        while window is not None and window <= last:
            alike = self._alike(window, last) if last > window + FEW else window
            columns, upto = self._release(window), window
            if alike > window + FEW:
                unchanged = unchanged or Unchanged(self.panes, self.per_window, self.per_slide)
                upto = unchanged.until(window, alike)
            items += results.repeat(window, upto + 1, columns)
            self.next_window = upto + 1
            window = self._next_with_tuples()
        self._release_more(last)
        batch = results.batch()
        if batch is not None:
            items.append(batch)
        self._forget_keys()
        items.append(results.progress(last, progress.ended))
        return items

    def _release_many(self, last: Bound) -> list[Item]:
        """All windows at once, if it pays and no late tuples are to come between them."""
        many = self._many
        if many is None or not many.pieces or last == BEGINNING:
            return []
        together, few = not self.stragglers and many.pays, FEW + 2 * self.per_window
        if not together or not many.take_from(self.panes, few, self.next_window):
            many.move_to(self.panes)
            return []
        self.contents = contents_over(self.folder, self.panes)  # what was merged is gone
        found = many.windows(self.next_window, last)
        if found is None:
            return []
        self.next_window = int(found.panes[-1]) + 1
        results = self.folder.results(found.partials, np.arange(len(found.codes)))
        columns = [*self.folder.keys.take(found.codes), *results]
        return list(self.results.of_windows(found.panes, columns))

    def _release_more(self, last: Bound) -> None:
        """Where something else than the stream can close windows, beyond the `last` one."""

    def _forget_keys(self) -> None:
        self._dead.forget(self._mark, self._renumber)

    def _mark(self, live: Mask) -> None:
        self._mark_panes(live)
        if self._many is not None:
            self._many.mark(live)
        for straggler in self.stragglers:
            live[straggler.codes] = True

    def _mark_panes(self, live: Mask) -> None:
        for pane in self.panes.all():
            mark_groups(live, pane)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        self.panes.renumber(change)
        self.contents.renumber(change)
        if self._many is not None:
            self._many.renumber(place)
        self.stragglers = [each._replace(codes=place[each.codes]) for each in self.stragglers]

    @property
    def stride(self) -> Stride | None:
        """Nothing comes of progress that closes no window."""
        column = self._bound.column
        if column is None:
            return None
        return Stride(column, self.window.origin, self.window.slide)

    def promised_by(self, bounds: Mapping[str, Ints]) -> Ints | None:
        """What many bounds, of different tuples, promise about the windowing attribute."""
        return self._bound.of_many(bounds)

    def _last_closed(self, bound: Bound) -> Bound:
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.window.origin) // self.window.slide - 1

    def _next_with_tuples(self) -> int | None:
        """The next window to release: the first not yet released that has tuples in it."""
        lowest = self.panes.lowest()
        # the first window that it is part of
        first = None if lowest is None else lowest // self.per_slide
        for straggler in self.stragglers:
            first = straggler.first if first is None else min(first, straggler.first)
        if first is None or self.next_window is None:
            return first
        return max(first, self.next_window)

    def _release(self, window: int) -> list[pa.Array]:
        end = (window + 1) * self.per_slide
        begin = end - self.per_window
        content = self.contents.of(begin, end)
        if self.stragglers:
            content = self._with_stragglers(window, content)
        codes = self._to_give(window, self.folder.present(content))
        return self.folder.finish(content, codes) if len(codes) else []

    def _to_give(self, window: int, codes: Codes) -> Codes:  # noqa: ARG002
        """The groups of a window whose results have not been given out."""
        return codes

    def _alike(self, window: int, last: Bound) -> Bound:
        """Up to which window late tuples make no difference."""
        for each in self.stragglers:
            last = min(last, each.first - 1 if each.first > window else each.last)
        return last

    def _with_stragglers(self, window: int, content: Partials) -> Partials:
        active = [s for s in self.stragglers if s.first <= window <= s.last]
        if active:
            copy = self.folder.new()
            self.folder.merge(copy, content)
            content = copy
            for straggler in active:
                self.folder.merge(content, self.folder.spread(straggler.partials, straggler.codes))
        self.stragglers = [s for s in self.stragglers if s.last > window]
        return content

    def _settle_all(self) -> None:
        """The same, and everything is to be in panes."""
        self._settle()
        if self._many is not None:
            self._many.move_to(self.panes)

    def rows_held(self) -> int:
        return self.waiting.rows_held

    def open_results(self) -> OpenResults:
        """From the first window with tuples that has not been released to the last."""
        self._settle()
        spans = [(late.first, late.last + 1) for late in self.stragglers]
        lowest, highest = self.panes.lowest(), self.panes.highest()
        if lowest is not None and self.next_window is not None:  # earlier panes may be kept
            begin = (self.next_window + 1) * self.per_slide - self.per_window
            lowest = self.panes.lowest_from(begin)
        if lowest is not None and highest is not None:
            stop = (highest + self.per_window) // self.per_slide
            spans.append((lowest // self.per_slide, stop))
        spans += [] if self._many is None else self._many.spans()
        released = self.next_window
        cut = ((first if released is None else max(first, released), stop) for first, stop in spans)
        return open_spans(*cut)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._settle_all()
        self.folder.keys.save(store)
        self.panes.save(store)
        store.put("run", self._run())

    def _run(self) -> dict[str, Tree]:
        late = [
            [each.first, each.last, self.folder.save(each.partials, each.codes)]
            for each in self.stragglers
        ]
        return {"next": self.next_window, "late": late, "results": self.results.save()}

    def load(self, store: ChunkStore) -> None:
        """Into an operator that has seen nothing yet."""
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.panes.load(store)
        self._load_run(saved)

    def _load_run(self, saved: dict[str, Tree]) -> None:
        self.next_window = saved["next"]
        for first, last, tree in saved["late"]:
            codes, partials = self.folder.load_apart(tree)
            self.stragglers.append(LatePanes(first, last, codes, partials))
        self.results.load(saved["results"])

    def export(self) -> OpenPieces:
        self._settle_all()
        released = BEGINNING if self.next_window is None else self.next_window
        return exported(self.folder, self._pieces(released), released, self.results)

    def _pieces(self, released: Bound) -> Iterator[LatePanes]:
        return pieces_of_panes(self.folder, self.panes, self.stragglers, self._shape, released)

    def adopt(self, state: OpenPieces) -> None:
        if state.released not in (BEGINNING, END):
            self.next_window = int(state.released)
        self.stragglers = taken_in(state, self.folder, self.panes, self._shape)
        self.results.load(state.highest)

    @property
    def _shape(self) -> PaneShape:
        return PaneShape(self.per_window, self.per_slide)
