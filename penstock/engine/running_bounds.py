"""The promise of a source, computed on whole columns (see `model.progress` for tuple by tuple).

Every tuple contributes a bound that holds after it; the bound before a tuple is the highest of the
contributions before it in its sub-source.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from penstock.model.progress import Delay, Ordered, Punctuated, Rule, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.watermark import LowWatermark
from penstock.operators.exact_sums import Ints

NOTHING = np.iinfo(np.int64).min  # a contribution that promises nothing


class SubSourceBound:
    """The running bound of one sub-source, across batches."""

    def __init__(self, rule: Rule, start: Bound) -> None:
        self._rule = rule
        self._recent: Ints = np.zeros(0, np.int64)  # what SLACK holds back
        self.bound: Bound = start

    def before(self, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each of some tuples; `promised` holds what rows that are punctuations
        say, NOTHING for tuples.  `ticks` of punctuations are NOTHING."""
        after = self._contributions(ticks, promised)
        start = NOTHING if self.bound == BEGINNING else int(self.bound)
        running = np.maximum.accumulate(np.concatenate([[start], after]))
        if running[-1] > NOTHING:
            self.bound = int(running[-1])
        before: Ints = running[:-1]
        return before

    def _contributions(self, ticks: Ints, promised: Ints | None) -> Ints:
        match self._rule:
            case Ordered():
                return ticks
            case Delay(delay):
                # a bound below all ticks is as good as none
                return np.where(ticks < NOTHING + delay, NOTHING, ticks - delay)
            case Slack(rows):
                joined = np.concatenate([self._recent, ticks])
                released = joined[: max(0, len(joined) - rows)]
                self._recent = joined[len(released) :]
                early = np.full(len(ticks) - len(released), NOTHING)
                return np.concatenate([early, released]) if len(released) < len(ticks) else released
            case Punctuated():
                assert promised is not None
                return promised


class RunningBounds:
    """All sub-sources of a source.  A newcomer joins at the bound of the whole, so batches are cut
    where one appears."""

    def __init__(self, rule: Rule, known: list[Hashable] | None = None) -> None:
        self._rule = rule
        self._low = LowWatermark(known)
        self._bounds: dict[Hashable, SubSourceBound] = {}
        for key in known or []:
            self._bounds[key] = SubSourceBound(rule, BEGINNING)

    @property
    def low(self) -> Bound:
        return self._low.value

    def end(self, key: Hashable) -> None:
        self._low.end(key)

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
                self._bounds[key] = SubSourceBound(self._rule, self._low.add(key))
            begin = end
        return before

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
