"""The promise of a source, computed on whole columns (see `model.progress` for tuple by tuple).

Every tuple contributes a bound that holds after it; the bound before a tuple is the highest of the
contributions before it in its sub-source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.progress import Delay, Ordered, Punctuated, Rule, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.watermark import LowWatermark
from penstock.state.chunks import ChunkStore, required

_BLOCK = 1024  # sub-sources that are saved together
NOTHING = np.iinfo(np.int64).min  # a contribution that promises nothing


class SubSourceBound:
    """The running bound of one sub-source, across batches."""

    def __init__(self, rule: Rule, start: Bound) -> None:
        self._rule = rule
        self.recent: Ints = np.zeros(0, np.int64)  # what SLACK holds back
        self.bound: Bound = start

    def before(self, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each of some tuples; `promised` holds what rows that are punctuations
        say, NOTHING for tuples.  `ticks` of punctuations are NOTHING."""
        after = self._contributions(ticks, promised)
        start = NOTHING if self.bound == BEGINNING else int(self.bound)
        running = np.empty(len(after) + 1, np.int64)
        running[0], running[1:] = start, after
        np.maximum.accumulate(running, out=running)
        reached = int(running[-1])
        if reached > NOTHING:
            self.bound = reached
        return running[:-1]

    def kept_by(self, lowest: int, highest: int) -> bool:
        """Whether no tuple between two ticks can break the promise, in whichever order they come;
        then it goes on as they make it."""
        if not isinstance(self._rule, Delay | Ordered):
            return False
        delay = self._rule.ticks if isinstance(self._rule, Delay) else 0
        after = max(self.bound, highest - delay)
        if lowest < after:
            return False
        if after > NOTHING:
            self.bound = after
        return True

    def let_go(self) -> bool:
        """Hold back no more than SLACK does now, which may have been more when this was saved."""
        if not isinstance(self._rule, Slack) or len(self.recent) <= self._rule.rows:
            return False
        released, self.recent = np.split(self.recent, [len(self.recent) - self._rule.rows])
        self.bound = max(self.bound, int(released.max()))
        return True

    def _contributions(self, ticks: Ints, promised: Ints | None) -> Ints:
        match self._rule:
            case Ordered():
                return ticks
            case Delay(delay):
                # a bound below all ticks is as good as none
                after = np.maximum(ticks, NOTHING + delay)
                after -= delay
                return after
            case Slack(rows):
                joined = np.concatenate([self.recent, ticks])
                released = joined[: max(0, len(joined) - rows)]
                self.recent = joined[len(released) :]
                early = np.full(len(ticks) - len(released), NOTHING)
                return np.concatenate([early, released]) if len(released) < len(ticks) else released
            case Punctuated():  # without rows that say so, only groups are punctuated
                return promised if promised is not None else np.full(len(ticks), NOTHING)


class RunningBounds:
    """All sub-sources of a source.  A newcomer joins at the bound of the whole, so batches are cut
    where one appears."""

    def __init__(self, rule: Rule, known: list[Hashable] | None = None) -> None:
        self._rule = rule
        self._low = LowWatermark(known)
        self._bounds: dict[Hashable, SubSourceBound] = {}
        for key in known or []:
            self._bounds[key] = SubSourceBound(rule, BEGINNING)
        self._left_out: dict[Hashable, SubSourceBound] = {}
        self._saved: dict[str, Hashable] = {}  # what the store has of each block

    @property
    def low(self) -> Bound:
        return self._low.value

    @property
    def known(self) -> list[Hashable]:
        """The sub-sources that are waited for."""
        return list(self._bounds)

    def knows(self, key: Hashable) -> bool:
        return key in self._bounds

    @property
    def held_back_by(self) -> list[Hashable]:
        """The sub-sources that everybody waits for."""
        return self._low.held_back_by

    def let_in(self, keys: Iterable[Hashable]) -> None:
        """Sub-sources that are there from now on, before any of them has spoken."""
        for key in keys:
            if key not in self._bounds:
                self._let_in(key)

    def leave_out(self, key: Hashable) -> None:
        """Do not wait for a sub-source that has fallen silent."""
        self._left_out[key] = self._bounds.pop(key)
        self._low.leave(key)

    def raise_to(self, bound: Bound) -> None:
        """Nothing below the bound is waited for any more, in whichever sub-source."""
        for key, each in self._bounds.items():
            each.bound = max(each.bound, bound)
            self._low.advance(key, each.bound)
        self._low.raise_to(bound)

    def kept_by(self, keys: list[Hashable], lowest: int, highest: int) -> bool:
        """Whether tuples of one known sub-source keep its promise whatever their order is, which is
        much cheaper to find out than the bound before each of them."""
        bound = self._bounds.get(keys[0]) if len(keys) == 1 else None
        if bound is None or not bound.kept_by(lowest, highest):
            return False
        self._low.advance(keys[0], bound.bound)
        return True

    def before(self, keys: list[Hashable], codes: Ints, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each tuple; `keys[code]` is its sub-source."""
        if len(keys) == 1 and keys[0] in self._bounds:  # the usual case: nothing to tell apart
            bound = self._bounds[keys[0]]
            before = bound.before(ticks, promised)
            self._low.advance(keys[0], bound.bound)
            return before
        before = np.empty(len(ticks), np.int64)
        new = [code for code, key in enumerate(keys) if key not in self._bounds]
        first = sorted(int(np.argmax(codes == code)) for code in new if (codes == code).any())
        begin = 0
        for end in [*first, len(ticks)]:
            part = slice(begin, end)
            self._within(keys, codes[part], ticks[part], promised, part, before[part])
            if end < len(ticks):
                key = keys[int(codes[end])]
                self._let_in(key)
            begin = end
        return before

    def _let_in(self, key: Hashable) -> None:
        """A newcomer, or one that had been left out and speaks again."""
        start = self._low.add(key)
        bound = self._left_out.pop(key, None) or SubSourceBound(self._rule, start)
        bound.bound = max(bound.bound, start)
        self._bounds[key] = bound

    def _within(
        self,
        keys: list[Hashable],
        codes: Ints,
        ticks: Ints,
        promised: Ints | None,
        part: slice,
        before: Ints,
    ) -> None:
        said = promised[part] if promised is not None else None
        for code in np.unique(codes).tolist():
            bound = self._bounds[keys[code]]
            mine = codes == code
            before[mine] = bound.before(ticks[mine], said[mine] if said is not None else None)
            self._low.advance(keys[code], bound.bound)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Write the blocks of sub-sources that have changed."""
        low = self._low.bounds
        blocks: dict[str, list[tuple[Hashable, Bound, Bound | None, Ints]]] = {}
        for key, each in (*self._bounds.items(), *self._left_out.items()):
            waited_for = low[key] if key in self._bounds else None
            entry = (key, each.bound, waited_for, each.recent)
            blocks.setdefault(_block(key), []).append(entry)
        for name, entries in blocks.items():
            now = tuple((*each[:3], each[3].tobytes()) for each in entries)
            if now != self._saved.get(name):
                store.put(f"bounds/{name}", entries)
                self._saved[name] = now
        store.put("low", self._low.value)

    def load(self, store: ChunkStore) -> None:
        low: dict[Hashable, Bound] = {}
        self._bounds.clear()
        for name in store.names():
            if name.startswith("bounds/"):
                for key, bound, waited_for, recent in required(store, name):
                    self._restore(() if key == [] else key, bound, waited_for, recent, low)
        self._low.restore(low, required(store, "low"))
        for key, each in self._bounds.items():
            if each.let_go():
                self._low.advance(key, each.bound)
        for each in self._left_out.values():
            each.let_go()

    def _restore(
        self,
        key: Hashable,
        bound: Bound,
        waited_for: Bound | None,
        recent: Ints,
        low: dict[Hashable, Bound],
    ) -> None:
        restored = SubSourceBound(self._rule, bound)
        restored.recent = recent
        if waited_for is None:
            self._left_out[key] = restored
        else:
            self._bounds[key], low[key] = restored, waited_for


def _block(key: Hashable) -> str:
    """Sub-sources by number are saved in blocks; files, or a source that is one, together."""
    return f"{key // _BLOCK}" if isinstance(key, int) else "named"
