"""Paned-WID: tuples are folded into panes that do not overlap, windows are made of panes.

A pane is as long as the greatest common divisor of RANGE and SLIDE, so that every window is a whole
number of panes.  A differential aggregate slides: panes that enter are merged, panes that leave are
subtracted.  Others are merged from blocks (see `pane_contents.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.bounds import BoundOf, has_broken
from penstock.operators.exact_sums import Ints
from penstock.operators.folding import Folder, Partials, Rows
from penstock.operators.operator import Item, Progress
from penstock.operators.pane_contents import BlockContents, Panes, SlidingContents
from penstock.operators.release import Missed, Results
from penstock.operators.scatter import Codes
from penstock.operators.ticks import to_ticks
from penstock.plan.aggregates import WindowAggregate
from penstock.windows.columns import floor_div
from penstock.windows.sliding import Sliding

_MANY = 4096  # groups below which nothing is forgotten


class Straggler(NamedTuple):
    """A late tuple that still counts in some windows."""

    first: int
    last: int
    rows: Rows


class Paned:
    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self.node = node
        self.results = Results(node)
        self.window = node.window
        self.attribute_type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema)
        self.pane = gcd(self.window.range, self.window.slide)
        self.per_window = self.window.range // self.pane
        self.per_slide = self.window.slide // self.pane
        self.panes = Panes(self.folder)
        self.contents: SlidingContents | BlockContents = (
            SlidingContents(self.folder, self.panes)
            if self.folder.differential
            else BlockContents(self.folder, self.panes)
        )
        self.next_window: int | None = None  # the first that has not been released
        self._look_again = _MANY  # groups at which to look for some that can be forgotten
        self.stragglers: list[Straggler] = []

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterable[Item]:  # noqa: ARG002
        ticks = to_ticks(self._attribute(batch), self.attribute_type)
        rows = self.folder.rows(batch, ticks)
        if has_broken(batch):
            rows, ticks, late = self._set_late_aside(batch, rows, ticks)
            if late is not None:
                yield late.late_rows(batch, self.attribute_type, self.node.schema.fields[0].type)
        if self.per_slide > self.per_window:  # then some tuples are in no window
            first, stop = self.window.wid_bounds(ticks)
            inside = np.flatnonzero(first < stop)
            rows, ticks = rows.take(inside), ticks[inside]
        if len(rows):
            self._fold(rows, ticks)

    def _fold(self, rows: Rows, ticks: Ints) -> None:
        panes = floor_div(ticks, plus=-self.window.origin, by=self.pane)
        first, last = int(panes.min()), int(panes.max())
        if first == last:
            self.folder.fold(self.panes.open(first), rows)
            return
        if last - first < 1 << 16:
            panes = (panes - first).astype(np.uint16)  # sorted by counting, which is much faster
        order = np.argsort(panes, kind="stable")
        panes, rows = panes[order], rows.take(order)
        cuts = np.flatnonzero(np.diff(panes)) + 1
        offset = first if panes.dtype == np.uint16 else 0
        begin = 0
        for end in [*cuts.tolist(), len(panes)]:
            pane = self.panes.open(int(panes[begin]) + offset)
            self.folder.fold(pane, rows.slice(begin, end))
            begin = end

    def _set_late_aside(
        self, batch: pa.RecordBatch, rows: Rows, ticks: Ints
    ) -> tuple[Rows, Ints, Missed | None]:
        """Tuples that broke the promise and miss windows: they count in the windows that they do
        not miss, one by one."""
        broke, bounds = self._bound.broken(batch)
        first, stop = self.window.wid_bounds(ticks[broke])
        # the first window that closes above the bound
        open_ = floor_div(bounds, plus=-self.window.origin, by=self.window.slide)
        missing = (open_ > first) & (first < stop)
        if not missing.any():
            return rows, ticks, None
        late, open_ = broke[missing], np.minimum(open_[missing], stop[missing])
        for row, begin, end in zip(late, open_.tolist(), stop[missing].tolist(), strict=True):
            if begin < end:
                self.stragglers.append(Straggler(begin, end - 1, rows.take(np.array([row]))))
        kept = np.ones(len(ticks), np.bool_)
        kept[late] = False
        order = np.flatnonzero(kept)
        missed = Missed(late, bounds[missing], first[missing], open_ - 1)
        return rows.take(order), ticks[order], missed

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound, and forget what they alone needed."""
        results = self.results
        bound = self._bound.promised(progress)
        last = self._last_closed(bound)
        window = self._next_with_tuples()
        while window is not None and window <= last:
            self._release(window, results)
            self.next_window = window + 1
            window = self._next_with_tuples()
        batch = results.batch()
        if batch is not None:
            yield batch
        self._forget_keys()
        yield results.progress(last, progress.ended)

    def _forget_keys(self) -> None:
        """Give up the numbers of groups that no pane holds any more, once they are the most."""
        keys = len(self.folder.keys)
        if keys < self._look_again:
            return
        live = np.zeros(keys, np.bool_)
        for pane in self.panes.all():
            rows = pane.rows.rows[:keys]
            live[: len(rows)] |= rows > 0
        for straggler in self.stragglers:
            live[straggler.rows.codes] = True
        codes = np.flatnonzero(live)
        if 2 * len(codes) < keys:
            self._renumber(codes, keys)
        self._look_again = max(_MANY, 2 * len(codes))

    def _renumber(self, codes: Codes, keys: int) -> None:
        def change(partials: Partials) -> Partials:
            return self.folder.take(partials, codes)

        self.panes.renumber(change)
        self.contents.renumber(change)
        place = np.zeros(keys, np.int64)
        place[codes] = np.arange(len(codes))
        self.stragglers = [
            straggler._replace(rows=replace(straggler.rows, codes=place[straggler.rows.codes]))
            for straggler in self.stragglers
        ]
        self.folder.keys = self.folder.keys.only(codes)

    def _last_closed(self, bound: Bound) -> Bound:
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.window.origin) // self.window.slide - 1

    def _next_with_tuples(self) -> int | None:
        """The next window to release: the first not yet released that has tuples in it."""
        candidates = [straggler.first for straggler in self.stragglers]
        lowest = self.panes.lowest()
        if lowest is not None:
            candidates.append(lowest // self.per_slide)  # the first window it is part of
        if not candidates:
            return None
        first = min(candidates)
        return first if self.next_window is None else max(first, self.next_window)

    def _release(self, window: int, results: Results) -> None:
        end = (window + 1) * self.per_slide
        begin = end - self.per_window
        content = self.contents.of(begin, end)
        content = self._with_stragglers(window, content)
        codes = np.flatnonzero(content.rows.rows)
        if len(codes):
            results.add(window, self.folder.finish(content, codes))

    def _with_stragglers(self, window: int, content: Partials) -> Partials:
        active = [s for s in self.stragglers if s.first <= window <= s.last]
        if active:
            copy = self.folder.new()
            self.folder.merge(copy, content)
            content = copy
            for straggler in active:
                self.folder.fold(content, straggler.rows)
        self.stragglers = [s for s in self.stragglers if s.last > window]
        return content
