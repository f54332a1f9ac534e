"""WID: a partial result for every open window, and every tuple goes into each of its windows.

`Tagger` is the operator of figure 6-2 of the thesis: it tags tuples with the range of their window
ids and turns progress of the attribute into progress of window ids.  `Wid` is the aggregation of
figure 6-4: it knows of ids only.  Cost per window: a'·T (Eq. 6.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import Arguments, DeadKeys, Folder, Rows, SmallBatches
from penstock.kernel.operator import (
    Base,
    Item,
    LateRows,
    OpenResults,
    Progress,
    Stride,
    at_once,
    open_windows,
)
from penstock.kernel.state import ChunkStore, Tree
from penstock.kernel.windows.open_windows import (
    AdoptedPieces,
    OpenPieces,
    exported,
    pieces_of_windows,
)
from penstock.kernel.windows.panes import LatePanes, Panes
from penstock.kernel.windows.results import IdRanges, Missed, Results, id_ranges, last_closed
from penstock.model.arrays import Codes, Ints, Mask, floor_div, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Sliding


@dataclass(frozen=True, slots=True)
class Tagged:
    """Rows with the range of their window ids (wids): the first, and the one after the last.  Every
    row is in a window.  If `raised`, some came too late for their first windows and begin further
    on."""

    rows: Rows
    first: Ints
    stop: Ints
    raised: bool = False

    def __len__(self) -> int:
        return len(self.first)

    def take(self, order: Ints) -> Tagged:
        return Tagged(self.rows.take(order), self.first[order], self.stop[order], self.raised)

    def renumbered(self, place: Codes) -> Tagged:
        """Replace the numbers of groups."""
        return replace(self, rows=replace(self.rows, codes=place[self.rows.codes]))

    def save(self) -> Tree:
        tags = {"first": self.first, "stop": self.stop, "raised": self.raised}
        return {"rows": self.rows.save(), **tags}

    @staticmethod
    def load(saved: Tree) -> Tagged:
        rows = Rows.load(saved["rows"])
        return Tagged(rows, saved["first"], saved["stop"], saved["raised"])

    def in_order(self, window: Sliding) -> Tagged:
        """Sort rows as far as windows can tell: pane by pane, in the order of arrival within
        panes."""
        panes = floor_div(
            self.rows.positions, plus=-window.origin, by=gcd(window.range, window.slide)
        )
        if not len(panes) or (panes[1:] >= panes[:-1]).all():
            return self
        lowest = int(panes.min())
        if int(panes.max()) - lowest < 1 << 16:
            order = np.argsort((panes - lowest).astype(np.uint16), kind="stable")  # by counting
        else:
            order = stable_order(panes)
        return self.take(order)

    def extents(
        self, window: Sliding, start: Bound = BEGINNING, last: Bound = END
    ) -> Iterator[tuple[int, Rows]]:
        """The windows from `start` to `last` that have rows, and which; the rows are in order.

        Both ends of the ranges rise in an ordered batch, so a window is a slice of it: nothing is
        copied, where repeating every row for each of its windows would copy (and sort) RANGE/SLIDE
        times the batch.  Only rows that begin further on have to be picked out.
        """
        natural = window.wid_bounds(self.rows.positions)[0] if self.raised else self.first
        least = np.minimum.accumulate(self.first[::-1])[::-1]  # of this row and all that follow
        wid: Bound = start
        begin = 0 if start == BEGINNING else int(np.searchsorted(self.stop, start, "right"))
        while begin < len(self):
            wid = max(wid, int(least[begin]))
            if wid > last:
                return
            end = int(np.searchsorted(natural, wid, "right"))
            rows = self.rows.slice(begin, end)
            if self.raised:
                inside = self.first[begin:end] <= wid
                rows = rows if inside.all() else rows.take(np.flatnonzero(inside))
            yield int(wid), rows
            wid += 1
            begin = int(np.searchsorted(self.stop, wid, "right"))


def joined(pieces: list[Tagged]) -> Tagged:
    """Concatenate tagged rows; there is at least one piece."""
    if len(pieces) == 1:
        return pieces[0]
    rows = Rows(
        np.concatenate([piece.rows.codes for piece in pieces]),
        np.concatenate([piece.rows.positions for piece in pieces]),
        [
            _joined_arguments([piece.rows.arguments[i] for piece in pieces], pieces)
            for i in range(len(pieces[0].rows.arguments))
        ],
    )
    first = np.concatenate([piece.first for piece in pieces])
    stop = np.concatenate([piece.stop for piece in pieces])
    return Tagged(rows, first, stop, any(piece.raised for piece in pieces))


def spans_of(pieces: list[Tagged], start: Bound) -> Iterator[tuple[int, int]]:
    """The windows of each piece, from `start` on."""
    for piece in pieces:
        yield int(max(int(piece.first.min()), start)), int(piece.stop.max())


def _joined_arguments(each: list[Arguments], pieces: list[Tagged]) -> Arguments:
    chosen = None
    if any(arguments.chosen is not None for arguments in each):
        chosen = np.concatenate(
            [
                np.ones(len(piece), np.bool_) if arguments.chosen is None else arguments.chosen
                for arguments, piece in zip(each, pieces, strict=True)
            ]
        )
    columns = zip(*(arguments.columns for arguments in each), strict=True)
    return Arguments(chosen, [pa.concat_arrays(column) for column in columns])


class Tagger:
    """The bucket operator: tags tuples with their window ids (wids), and translates progress
    (figure 6-2).  Windows of a fixed length in ticks need no context, so it keeps no state."""

    def __init__(self, node: WindowAggregate, folder: Folder) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self.window = node.window
        self._type = node.attribute.type
        self._id_type = node.schema.fields[0].type
        self._folder = folder
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)

    def ticks(self, batch: pa.RecordBatch) -> Ints:
        return to_ticks(self._attribute(batch), self._type)

    def tag(self, batch: Batch) -> tuple[Tagged, LateRows | None]:
        """Tag tuples with their windows; return those that are in windows, and the late ones that
        missed some."""
        return self.tag_late(batch.rows, self.ticks(batch.rows), *self.broken(batch))

    def broken(self, batch: Batch) -> tuple[Ints, Ints] | tuple[None, None]:
        """Find the rows that broke their source's bound, and the bounds that they broke."""
        return (None, None) if batch.broken is None else self._bound.broken(batch)

    def tag_late(
        self,
        batch: pa.RecordBatch,
        ticks: Ints,
        broke: Ints | None,
        bounds: Ints | None,
        whole: bool = False,
    ) -> tuple[Tagged, LateRows | None]:
        """Tag tuples with their window ids; `broke` are the rows that broke a bound, with these
        `bounds`."""
        first, stop, raised, missed = id_ranges(self.window, ticks, broke, bounds, whole)
        late = self.late_rows(batch, missed) if missed is not None else None
        inside = first < stop
        if not inside.all():
            batch, ticks = batch.filter(pa.array(inside)), ticks[inside]
            first, stop = first[inside], stop[inside]
        return Tagged(self._folder.rows(batch, ticks), first, stop, raised), late

    def ranges(self, batch: Batch, ticks: Ints) -> IdRanges:
        """The windows of each tuple, and what late ones missed."""
        return id_ranges(self.window, ticks, *self.broken(batch))

    def late_rows(self, batch: pa.RecordBatch, missed: Missed) -> LateRows:
        return missed.late_rows(batch, self._type, self._id_type)

    def promised(self, progress: Progress) -> Bound:
        return self._bound.promised(progress)

    @property
    def stride(self) -> Stride | None:
        column = self._bound.column
        if column is None:
            return None
        return Stride(column, self.window.origin, self.window.slide)

    def last_closed(self, bound: Bound) -> Bound:
        """The last window that ends at or below a bound of the attribute."""
        if bound in (BEGINNING, END):
            return bound
        return last_closed(self.window, int(bound))


class Wid(Base):
    """The aggregation of WID (figure 6-4).

    Window aggregation by window ids.  A batch is put in order once and every window takes its
    slice of it, so a tuple is folded once per window that it is in; a late tuple is one whose range
    of ids begins later.  Small batches over many windows are its bad case, a fold per window, so
    they wait for each other until a window closes.
    """

    def __init__(self, node: WindowAggregate) -> None:
        self.node = node
        self.results = Results(node)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.bucket = Tagger(node, self.folder)
        self.windows = Panes(self.folder)  # the open windows by their ids
        self._dead = DeadKeys(self.folder)
        self._waiting = SmallBatches()
        self._closed_upto: Bound | None = None  # the last window that progress has closed

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.broken is None:
            for ready in self._waiting.add(batch):
                self._ingest(ready)
            return []
        self._settle()
        late = self._ingest(batch)
        return [] if late is None else [late]

    def _settle(self) -> None:
        """Fold all waiting tuples."""
        for batch in self._waiting.take():
            self._ingest(batch)

    def _ingest(self, batch: Batch) -> LateRows | None:
        tagged, late = self.bucket.tag(batch)
        window = self.bucket.window
        for wid, rows in tagged.in_order(window).extents(window):
            self.folder.fold(self.windows.open(wid), rows)
        return late

    @property
    def stride(self) -> Stride | None:
        """Stride of progress: bounds that close no window can be skipped."""
        return self.bucket.stride

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound."""
        last = self.bucket.last_closed(self.bucket.promised(progress))
        if last == self._closed_upto and not progress.ended:
            return  # tuples since then are in later windows
        self._closed_upto = last
        self._settle()
        results = self.results
        wid = self.windows.lowest()
        while wid is not None and wid <= last:
            content = self.windows.open(wid)
            codes = self._not_emitted(wid, self.folder.present(content))
            results.add(wid, self.folder.finish(content, codes))
            self.windows.drop(wid)
            wid = self.windows.lowest()
        self._release_more(last)
        batch = results.batch()
        if batch is not None:
            yield batch
        self._dead.forget(self._mark, self._renumber)
        yield results.progress(last, progress.ended)

    def _release_more(self, last: Bound) -> None:
        """Hook: release windows beyond the `last` one that are closed otherwise than by the
        stream."""

    def _not_emitted(self, window: int, codes: Codes) -> Codes:  # noqa: ARG002
        """Groups of a window whose results have not been emitted."""
        return codes

    def rows_held(self) -> int:
        return self._waiting.rows_held

    def open_results(self) -> OpenResults:
        self._settle()
        return open_windows(wid for wid, _ in self.windows.numbered())

    def _mark(self, live: Mask) -> None:
        for wid, window in self.windows.numbered():
            groups = np.flatnonzero(window.rows.rows)
            live[self._not_emitted(wid, groups)] = True

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        self.windows.renumber(lambda partials: self.folder.take(partials, codes))

    def save(self, store: ChunkStore) -> None:
        self._settle()
        self.folder.keys.save(store)
        self.windows.save(store)
        store.put("run", {"results": self.results.save()})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.windows.load(store)
        self.results.load(saved["results"])

    def export(self) -> OpenPieces:
        self._settle()
        return exported(self.folder, self._pieces(), None, self.results)

    def _pieces(self) -> Iterator[LatePanes]:
        return pieces_of_windows(self.folder, self.windows)

    def adopt(self, state: OpenPieces) -> None:
        adopted = AdoptedPieces(self.folder, self.bucket.window)
        adopted.adopt(state)
        for wid in adopted.windows(state.released, END):
            content = adopted.of(wid)
            if content is not None:
                self.folder.merge(self.windows.open(wid), content)
        self.results.load(state.highest)
