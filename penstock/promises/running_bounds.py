"""The promise of a source: the bounds of its sub-sources, and the low-watermark of all of them.

Whatever is done costs as much as there are sub-sources that take part in it, however many others
there are.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.progress import Rule
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.folding.scatter import grown
from penstock.promises.by_sub_source import NOTHING, BySubSource
from penstock.promises.lowest import NOBODY, Lowest
from penstock.promises.newcomers import joined_in
from penstock.promises.sub_source_bounds import SubSourceBounds, within_ticks
from penstock.state.chunks import ChunkStore, required

BLOCK = 1024  # sub-sources that are saved together


class RunningBounds(SubSourceBounds):
    """All sub-sources of a source, by number.  Nobody who is waited for has a bound below the
    low-watermark: so that is a floor for all bounds, and raising it raises all of them."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self._know_nobody()

    def _know_nobody(self) -> None:
        super()._know_nobody()
        self._waited_for: Mask = np.zeros(0, np.bool_)
        self._waiting = 0  # for so many
        self._lowest = Lowest()  # of the bounds of those that are waited for
        self._low = NOTHING
        self._touched: set[int] = set()  # blocks, since the last save

    @property
    def low(self) -> Bound:
        return BEGINNING if self._low == NOTHING else self._low

    @property
    def known(self) -> Codes:
        """The sub-sources that are waited for."""
        return np.flatnonzero(self._waited_for)

    def knows(self, code: int) -> bool:
        return code < len(self._waited_for) and bool(self._waited_for[code])

    @property
    def held_back_by(self) -> Codes:
        """The sub-sources that everybody waits for."""
        return self._lowest.at_most(self._low) if self._low < NOBODY else self.known

    def let_in(self, codes: Codes) -> None:
        """Sub-sources that are there from now on, before any of them has spoken.  Newcomers, or
        those that had been left out, join at the low-watermark."""
        self._reserve(int(codes.max(initial=-1)) + 1)
        codes = codes[~self._waited_for[codes]]
        self._wait_for(codes)
        self._move(codes, np.maximum(self._bounds[codes], self._low))

    def leave_out(self, codes: Codes) -> None:
        """Do not wait for sub-sources that have fallen silent, as if they left one by one."""
        if len(codes) == 0:
            return
        self._bounds[codes] = np.maximum(self._bounds[codes], self._low)
        self._waited_for[codes] = False
        self._waiting -= len(codes)
        self._lowest.put(codes, np.full(len(codes), NOBODY))
        if not self._waiting:  # the last one was waited for alone
            self._low = int(self._bounds[codes[-1]])
        self._look()
        self._touch(codes)

    def raise_to(self, bound: Bound) -> None:
        """Nothing below the bound is waited for any more, in whichever sub-source."""
        self._low = max(self._low, within_ticks(bound))

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        if not self.knows(code):
            self._let_in_one(code)  # they are about to come
        return super().kept_by(code, lowest, highest)

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        if len(ticks) == 0:
            return ticks
        if not self.knows(code):
            self._let_in_one(code)
        rows = BySubSource.one(code, len(ticks))
        after = self._contributions(rows, ticks, promised)
        running = np.empty(len(after) + 1, np.int64)
        running[0], running[1:] = self._bound(code), after
        np.maximum.accumulate(running, out=running)
        self._move_one(code, int(running[-1]))
        return running[:-1]

    def _bound(self, code: int) -> int:
        return max(int(self._bounds[code]), self._low)

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        self._reserve(int(rows.codes[-1]) + 1)
        known = self._waited_for[rows.codes]
        starts = self._bounds[rows.codes]
        starts[known] = np.maximum(starts[known], self._low)
        after = self._contributions(rows, ticks, promised)
        before, reached = rows.highest_before(starts, after)
        if not known.all():
            others = self._lowest_without(rows.codes) if self._waiting else None
            made = rows.next_in_each(before, reached)
            joined = np.full(len(rows.codes), NOTHING)
            joined[~known] = joined_in(rows, ~known, starts, made, others, self._low)
            before = np.maximum(before, rows.spread(joined))
            reached = np.maximum(reached, joined)
            self._wait_for(rows.codes[~known])
        self._move(rows.codes, reached)
        return before

    def _lowest_without(self, codes: Codes) -> int:
        """The lowest bound of all others; those must be put back."""
        self._lowest.put(codes, np.full(len(codes), NOBODY))
        return self._lowest.value

    def _let_in_one(self, code: int) -> None:
        self._reserve(code + 1)
        self._waited_for[code] = True
        self._waiting += 1
        self._move_one(code, self._bound(code))

    def _wait_for(self, codes: Codes) -> None:
        self._waited_for[codes] = True
        self._waiting += len(codes)

    def _move(self, codes: Codes, bounds: Ints) -> None:
        self._bounds[codes] = bounds
        self._lowest.put(codes, bounds)
        self._look()
        self._touch(codes)

    def _move_one(self, code: int, bound: int) -> None:
        held_back = self._bounds[code] <= self._low  # otherwise somebody else holds the others back
        self._bounds[code] = bound = within_ticks(bound)
        self._lowest.put_one(code, bound)
        if self._waiting == 1:
            self._low = max(self._low, bound)
        elif held_back:
            self._look()
        self._touched.add(code // BLOCK)

    def _look(self) -> None:
        if self._waiting:
            self._low = max(self._low, self._lowest.value)

    def _reserve(self, size: int) -> None:
        super()._reserve(size)
        self._waited_for = grown(self._waited_for, size, False)

    # --- state -----------------------------------------------------------------------------------

    def _touch(self, codes: Codes) -> None:
        self._touched.update(blocks_of(codes))

    def save(self, store: ChunkStore) -> None:
        """Write the blocks of sub-sources that have changed."""
        for block in self._touched:
            codes = np.arange(block * BLOCK, min(len(self._bounds), (block + 1) * BLOCK))
            chunk = {"bounds": self._bounds[codes], "waited for": self._waited_for[codes]}
            if self._held is not None:
                chunk["sizes"], chunk["recent"] = self._held.of(codes)
            store.put(f"bounds/{block}", chunk)
        self._touched.clear()
        store.put("low", self._low)

    def load(self, store: ChunkStore) -> None:
        """In place of whatever is known."""
        self._know_nobody()
        self._low = required(store, "low")
        for name in store.names():
            if name.startswith("bounds/"):
                self._load_block(int(name.removeprefix("bounds/")), required(store, name))
        self._look()

    def _load_block(self, block: int, chunk: dict[str, Ints]) -> None:
        codes = block * BLOCK + np.arange(len(chunk["bounds"]))
        bounds = self._restore(codes, chunk["bounds"], chunk.get("sizes"), chunk.get("recent"))
        self._reserve(int(codes[-1]) + 1)
        waited_for = chunk["waited for"].astype(np.bool_)
        self._wait_for(codes[waited_for])
        self._lowest.put(codes[waited_for], bounds[waited_for])


def blocks_of(codes: Codes) -> list[int]:
    """The blocks that hold some sub-sources."""
    if len(codes) == 0:
        return []
    touched = np.zeros(int(codes.max()) // BLOCK + 1, np.bool_)
    touched[codes // BLOCK] = True
    blocks: list[int] = np.flatnonzero(touched).tolist()
    return blocks
