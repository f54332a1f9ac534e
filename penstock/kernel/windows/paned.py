"""Paned-WID: window aggregation over panes that do not overlap; and many panes at once, for batches
with few tuples of many groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.expressions.evaluation import compile_alone
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_tick, to_ticks
from penstock.kernel.grouping.folding import (
    DeadKeys,
    Folder,
    Partials,
    Rows,
    SmallBatches,
    mark_groups,
)
from penstock.kernel.operator import Base, Item, OpenResults, Progress, Stride, open_spans
from penstock.kernel.state import ChunkStore, Tree
from penstock.kernel.windows.open_windows import OpenPieces, exported, pieces_of_panes, taken_in
from penstock.kernel.windows.panes import (
    FEW,
    LatePanes,
    Panes,
    PaneShape,
    PartialPanes,
    Unchanged,
    contents_over,
)
from penstock.kernel.windows.results import Missed, Results
from penstock.model.arrays import (
    Codes,
    Ints,
    Mask,
    extreme_quotients,
    first_rows,
    floor_div,
    quotient,
    stable_order,
)
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding

_ENOUGH = 8  # panes of a batch that are worth it
_ONE = PaneShape(1, 1)  # where windows are panes


# Many panes at once: the groups of all panes of a batch, numbered together.
#
# A pane of its own has room for every group, so one with few of many groups costs more than its
# tuples, and so does a window.  Here a batch makes one piece, in which every pane has just the
# groups that it has tuples of; windows are computed from it without panes of their own: tumbling
# ones, which are panes, and sliding ones of few panes, all at once.


class FoldedPanes(NamedTuple):
    """Groups of panes, and a partial result for each."""

    panes: Ints
    codes: Codes
    partials: Partials


@dataclass
class ManyPanes:
    """Groups of many panes in few pieces, instead of a partial result over all groups for each
    pane."""

    folder: Folder
    pieces: list[FoldedPanes]
    shape: PaneShape = _ONE

    def worth_it(self, rows: int, first: int, last: int) -> bool:
        """Whether so many rows, or partial results, cost less here than as panes: every window is
        merged from each of its panes, but has no room for groups without tuples."""
        if last - first < _ENOUGH or self.shape == _ONE:
            return last - first >= _ENOUGH
        merged = rows * -(-self.shape.per_window // self.shape.per_slide) * self.shape.per_window
        return merged < (last - first) * len(self.folder.keys)

    @property
    def pays(self) -> bool:
        """Whether all pieces so far cost less here than as panes."""
        found = self.bounds()
        rows = sum(len(piece.panes) for piece in self.pieces)
        return self.shape == _ONE or (found is not None and self.worth_it(rows, *found))

    def add(self, panes: Ints, codes: Codes, partials: Partials) -> None:
        """Partial results of groups of panes, each of which is there once."""
        self.pieces.append(FoldedPanes(panes, codes, partials))

    def takes(self, made: PartialPanes, codes: Codes) -> bool:
        """Try to use panes that were begun elsewhere without changing them; return whether that was
        possible."""
        if not len(made) or (made.places != made.places[0]).any():
            return False
        if not self.worth_it(len(made), int(made.panes[0]), int(made.panes[-1])):
            return False
        self.add(made.panes, codes, made.partials)
        return True

    def take_from(self, panes: Panes, most: int, released: int | None) -> bool:
        """Merge panes of their own, unless they are more; return whether it was done.  Panes of
        windows below `released` may be left."""
        given = panes.numbered()
        if len(given) > most:
            return False
        for number, pane in given:
            panes.drop(number)
            if released is None or self.shape.windows_of(number)[1] >= released:
                codes = np.flatnonzero(pane.rows.rows)
                self.add(np.full(len(codes), number), codes, self.folder.take(pane, codes))
        return True

    def fold(self, rows: Rows, panes: Ints) -> None:
        own, numbers = first_rows(self._pairs(panes, rows.codes))
        partials = self.folder.folded(replace(rows, codes=numbers), len(own))
        self.pieces.append(FoldedPanes(panes[own], rows.codes[own], partials))

    def _pairs(self, panes: Ints, codes: Codes) -> Ints:
        """A number for every group of a pane."""
        size, lowest = len(self.folder.keys), int(panes.min())
        if (int(panes.max()) - lowest + 1) * size > INT64_MAX:
            return first_rows(panes)[1] * size + codes
        return (panes - lowest) * size + codes

    def windows(self, released: int | None, last: Bound) -> FoldedPanes | None:
        """Groups of windows up to the last one, window by window, each in the order of their keys;
        those below `released` have been emitted.  Panes that are part of no later window are
        dropped."""
        if self.shape == _ONE:
            return self.take(last)
        if not self.pieces:
            return None
        piece = self.pieces[0] if len(self.pieces) == 1 else self._united(self.pieces)
        stop = (piece.panes + self.shape.per_window) // self.shape.per_slide
        later = np.flatnonzero(stop > last + 1)
        self.pieces = [self._some(piece, later)] if len(later) else []
        begin = piece.panes // self.shape.per_slide
        if released is not None:
            begin = np.maximum(begin, released)
        return self._merged(piece, begin, stop if last == END else np.minimum(stop, int(last) + 1))

    def _merged(self, piece: FoldedPanes, begin: Ints, stop: Ints) -> FoldedPanes | None:
        """The windows that panes are part of, from `begin` to before `stop`."""
        sizes = np.maximum(stop - begin, 0)
        places = np.repeat(np.arange(len(sizes)), sizes)
        if not len(places):
            return None
        windows = (
            begin[places] + np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        )
        own, numbers = first_rows(self._pairs(windows, piece.codes[places]))
        # a window has one pane at each distance from its end, so these do not meet each other
        distance = (windows + 1) * self.shape.per_slide - 1 - piece.panes[places]
        merged: Partials | None = None
        for each in range(self.shape.per_window - 1, -1, -1):
            which = np.flatnonzero(distance == each)
            if len(which):
                some = self.folder.take_apart(piece.partials, places[which])
                spread = self.folder.spread_apart(some, numbers[which], len(own))
                if merged is None:
                    merged = spread
                else:
                    self.folder.merge_apart(merged, spread)
        assert merged is not None
        return self._in_order(FoldedPanes(windows[own], piece.codes[places[own]], merged))

    def take(self, last: Bound) -> FoldedPanes | None:
        """Remove the groups of panes up to the last one; return them pane by pane, each in the
        order of their keys."""
        taken, left = [], []
        for piece in self.pieces:
            upto: Mask = piece.panes <= last
            if upto.all():
                taken.append(piece)
                continue
            left.append(self._some(piece, np.flatnonzero(~upto)))
            if upto.any():
                taken.append(self._some(piece, np.flatnonzero(upto)))
        self.pieces = left
        if not taken:
            return None
        return self._in_order(taken[0] if len(taken) == 1 else self._united(taken))

    def _in_order(self, found: FoldedPanes) -> FoldedPanes:
        order = self.folder.keys.order_of(found.codes)
        order = order[stable_order(found.panes[order])]
        return self._some(found, order)

    def _some(self, piece: FoldedPanes, places: Ints) -> FoldedPanes:
        partials = self.folder.take_apart(piece.partials, places)
        return FoldedPanes(piece.panes[places], piece.codes[places], partials)

    def _united(self, pieces: list[FoldedPanes]) -> FoldedPanes:
        panes = np.concatenate([piece.panes for piece in pieces])
        codes = np.concatenate([piece.codes for piece in pieces])
        own, numbers = first_rows(self._pairs(panes, codes))
        begin = 0
        united: Partials | None = None
        for piece in pieces:
            end = begin + len(piece.panes)
            spread = self.folder.spread_apart(piece.partials, numbers[begin:end], len(own))
            if united is None:
                united = spread
            else:
                self.folder.merge_apart(united, spread)
            begin = end
        assert united is not None
        return FoldedPanes(panes[own], codes[own], united)

    def move_to(self, panes: Panes) -> None:
        """Make panes of their own of all of them."""
        for piece in self.pieces:
            order = stable_order(piece.panes)
            cuts = np.flatnonzero(np.diff(piece.panes[order])) + 1
            for places in np.split(order, cuts):
                own = self._some(piece, places)
                pane = panes.open(int(own.panes[0]))
                self.folder.merge(pane, self.folder.spread(own.partials, own.codes))
        self.pieces = []

    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest pane."""
        if not self.pieces:
            return None
        lowest = min(int(piece.panes.min()) for piece in self.pieces)
        return lowest, max(int(piece.panes.max()) for piece in self.pieces)

    def spans(self) -> list[tuple[int, int]]:
        """Spans of windows that the panes are part of."""
        found = self.bounds()
        if found is None:
            return []
        return [(self.shape.windows_of(found[0])[0], self.shape.windows_of(found[1])[1] + 1)]

    def mark(self, live: Mask) -> None:
        for piece in self.pieces:
            live[piece.codes] = True

    def renumber(self, place: Codes) -> None:
        self.pieces = [piece._replace(codes=place[piece.codes]) for piece in self.pieces]


# Paned-WID: tuples are folded into panes that do not overlap, windows are made of panes.
#
# A pane is as long as the greatest common divisor of RANGE and SLIDE, so that every window is a
# whole number of panes.  A differential aggregate slides: panes that enter are merged, panes that
# leave are subtracted.  Others are merged from blocks (see `BlockContents`).

_NARROW = {1: np.uint8, 2: np.uint16}  # by bytes: sorted by counting, which is much faster


class Paned(Base):
    """Paned-WID: fold tuples into panes, and merge the panes of each window that progress
    closes."""

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
        self._closed_upto: Bound | None = None  # the last window that progress has closed
        self._dead = DeadKeys(self.folder)
        self.waiting = SmallBatches()
        # those of large batches, until they leave or have to be panes of their own
        self._many = ManyPanes(self.folder, [], self._shape) if type(self) is Paned else None
        self.stragglers: list[LatePanes] = []

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.broken is None:
            for ready in self.waiting.add(batch):
                self._ingest_all(ready)
            return []
        self._settle()
        in_time, ticks, late = self._split_late(batch, self._ticks(batch.rows))
        self._ingest(in_time, ticks)
        if late is None:
            return []
        id_type = self.node.schema.fields[0].type
        return [late.late_rows(batch.rows, self.attribute_type, id_type)]

    def _settle(self) -> None:
        """Fold all waiting tuples."""
        for batch in self.waiting.take():
            self._ingest_all(batch)

    def _ingest_all(self, batch: Batch) -> None:
        if batch.form is None or self._attribute_of is None:
            self._ingest(batch.rows, self._ticks(batch.rows))
            return
        tick = to_tick(self._attribute_of(batch.values), self.attribute_type)
        if self.window.covers(tick):
            pane = quotient(tick, plus=-self.window.origin, by=self.pane)
            self.folder.fold(self.panes.open(pane), self.folder.row(batch, tick))

    def _ticks(self, batch: pa.RecordBatch) -> Ints:
        return to_ticks(self._attribute(batch), self.attribute_type)

    def _ingest(self, batch: pa.RecordBatch, ticks: Ints) -> None:
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

    def _split_late(self, batch: Batch, ticks: Ints) -> tuple[pa.RecordBatch, Ints, Missed | None]:
        """Tuples that broke a bound and miss windows: they count in the windows that they do not
        miss, one by one."""
        broke, bounds = self._bound.broken(batch)
        first, stop = self.window.wid_bounds(ticks[broke])
        # the first window that closes above the bound
        open_ = floor_div(bounds, plus=-self.window.origin, by=self.window.slide)
        missing = (open_ > first) & (first < stop)
        if not missing.any():
            return batch.rows, ticks, None
        late, open_ = broke[missing], np.minimum(open_[missing], stop[missing])
        self._fold_stragglers(batch.rows.take(pa.array(late)), ticks[late], open_, stop[missing])
        kept = np.ones(len(ticks), np.bool_)
        kept[late] = False
        missed = Missed(late, bounds[missing], first[missing], open_ - 1)
        return batch.rows.filter(pa.array(kept)), ticks[kept], missed

    def _fold_stragglers(self, batch: pa.RecordBatch, ticks: Ints, open_: Ints, stop: Ints) -> None:
        """Let tuples count in the windows from `open_` to before `stop`, apart from the panes."""
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
        """Release the windows that end at or below the bound, and drop the panes that only they
        needed."""
        results = self.results
        bound = self._bound.promised(progress)
        last = self._last_closed(bound)
        if last == self._closed_upto and not progress.ended:
            return []  # tuples since then are in later windows
        self._closed_upto = last
        self._settle()
        items = self._release_many(last)
        unchanged: Unchanged | None = None
        window = self._next_with_tuples()
        while window is not None and window <= last:
            alike = self._unaffected_until(window, last) if last > window + FEW else window
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
        """Release all windows at once, if it pays and no late tuples are to come between them."""
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
        """Hook: release windows beyond the `last` one that are closed otherwise than by the
        stream."""

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
        """Stride of progress: bounds that close no window can be skipped."""
        column = self._bound.column
        if column is None:
            return None
        return Stride(column, self.window.origin, self.window.slide)

    def promised_by(self, bounds: Mapping[str, Ints]) -> Ints | None:
        """Bounds on the windowing attribute that follow from many bounds, of different tuples."""
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
        codes = self._not_emitted(window, self.folder.present(content))
        return self.folder.finish(content, codes) if len(codes) else []

    def _not_emitted(self, window: int, codes: Codes) -> Codes:  # noqa: ARG002
        """Groups of a window whose results have not been emitted."""
        return codes

    def _unaffected_until(self, window: int, last: Bound) -> Bound:
        """Last window up to which late tuples make no difference."""
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

    def _settle_into_panes(self) -> None:
        """Fold all waiting tuples, and move all partial results into panes."""
        self._settle()
        if self._many is not None:
            self._many.move_to(self.panes)

    def rows_held(self) -> int:
        return self.waiting.rows_held

    def open_results(self) -> OpenResults:
        """Windows from the first with tuples that has not been released to the last."""
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
        self._settle_into_panes()
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
        """Restore into an operator that has seen nothing yet."""
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
        self._settle_into_panes()
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
