"""Two-level aggregation as in Gigascope (section 8.3.3): a small table of fixed size reduces the
stream, a high level merges what it puts out.

A pane has one result per group in the end, but may leave the low level in several partial results:
whenever another (pane, group) needs the slot.  Merging makes the answer exact whatever is flushed
when, which is what freedom from order buys: no flush has to wait for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.folding.folder import Rows
from penstock.operators.open_results import OpenResults, open_spans
from penstock.operators.operator import Item, Progress, at_once
from penstock.operators.windows.low_level import LazyFlush, LowLevel, PartialRows, SlowFlush
from penstock.operators.windows.paned import Paned
from penstock.operators.windows.pieces.open_pieces import OpenPieces
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.columns import floor_div


class TwoLevel(Paned):
    """Paned-WID behind a low level: exact answers, at most `flush.panes` panes later than without.
    Late tuples that still count in some windows go straight to the high level."""

    stride = None  # it makes something of any progress

    def __init__(
        self, node: WindowAggregate, slots: int = 4096, flush: LazyFlush | None = None
    ) -> None:
        super().__init__(node)
        self.low = LowLevel(node, slots, flush or SlowFlush(), self.folder)

    def _fold(self, rows: Rows, ticks: Ints) -> None:
        panes = floor_div(ticks, plus=-self.window.origin, by=self.pane)
        self._merge(self.low.take_in(rows, panes))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._settle()
        bound = self._bound.promised(progress)
        if bound != BEGINNING:
            ended = bound == END
            self._merge(
                self.low.advance(END if ended else (int(bound) - self.window.origin) // self.pane)
            )
        yield from super().on_progress(port, progress)

    def _last_closed(self, bound: Bound) -> Bound:
        """Windows wait for their panes to leave the low level."""
        last, lowest = super()._last_closed(bound), self.low.lowest()
        return last if lowest is None else min(last, lowest // self.per_slide - 1)

    def _merge(self, flushed: Iterable[PartialRows]) -> None:
        for rows in flushed:
            for pane, partials in rows.by_pane(self.folder):
                self.folder.merge(self.panes.open(pane), partials)

    def open_results(self) -> OpenResults:
        open_ = super().open_results()
        panes = self.low.pane[self.low.code >= 0]
        if not len(panes):
            return open_
        first, stop = int(panes.min()), int(panes.max()) + self.per_window
        return open_ | open_spans((first // self.per_slide, stop // self.per_slide))

    # --- state -----------------------------------------------------------------------------------

    def _mark(self, live: Mask) -> None:
        super()._mark(live)
        self.low.mark(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        self._merge(self.low.clear())
        super()._renumber(codes, place)

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        self.low.save(store)

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        if store.get("low") is not None:
            self.low.load(store)

    def export(self) -> OpenPieces:
        self._settle()
        self._merge(self.low.clear())
        return super().export()
