"""The bounds of sub-sources by number, as their own tuples make them (see `model.progress` for
tuple by tuple).

Every tuple contributes a bound that holds after it; the bound before a tuple is the highest of the
contributions before it in its sub-source.
"""

from __future__ import annotations

import numpy as np

from penstock.model.arrays import Codes, Ints
from penstock.model.progress import Delay, Ordered, Punctuated, Rule, Slack
from penstock.model.types import INT64_MAX
from penstock.operators.folding.scatter import grown
from penstock.promises.by_sub_source import NOTHING, BySubSource
from penstock.promises.held_back import HeldBack


class SubSourceBounds:
    """What is known of every sub-source, in arrays by its number."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._delay = rule.ticks if isinstance(rule, Delay) else 0
        self._know_nobody()

    def _know_nobody(self) -> None:
        self._bounds: Ints = np.zeros(0, np.int64)  # NOTHING for those that nobody knows
        rule = self._rule
        self._held = HeldBack(rule.rows) if isinstance(rule, Slack) else None

    def before(self, codes: Codes, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each of some tuples, by the codes of their sub-sources; `promised` holds
        what rows that are punctuations say, NOTHING for tuples.  `ticks` of punctuations are
        NOTHING."""
        if len(codes) == 0:
            return ticks
        rows = BySubSource.of(codes)
        said = rows.sorted(promised) if promised is not None else None
        return rows.restored(self._before(rows, rows.sorted(ticks), said))

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        """The same, if all are of one sub-source."""
        return self._before(BySubSource.one(code, len(ticks)), ticks, promised)

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        """Whether no tuple of a sub-source between two ticks can break its promise, in whichever
        order they come; then it goes on as they make it.  That is much cheaper to find out than the
        bound before each of them."""
        if not isinstance(self._rule, Delay | Ordered) or not self.knows(code):
            return False
        after = max(self._bound(code), highest - self._delay)
        if lowest < after:
            return False
        self._move_one(code, after)
        return True

    def knows(self, code: int) -> bool:
        raise NotImplementedError

    def _bound(self, code: int) -> int:
        return int(self._bounds[code])

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        """The bound before each row; all in the order of `rows`."""
        raise NotImplementedError

    def _move_one(self, code: int, bound: int) -> None:
        raise NotImplementedError

    def _reserve(self, size: int) -> None:
        self._bounds = grown(self._bounds, size, NOTHING)

    def _contributions(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        match self._rule:
            case Delay(delay) if delay:
                # a bound below all ticks is as good as none
                after = np.maximum(ticks, NOTHING + delay)
                after -= delay
                return after
            case Ordered() | Delay():
                return ticks
            case Slack():
                assert self._held is not None
                return self._held.released(rows.codes, rows.sizes, ticks)
            case Punctuated():  # without rows that say so, only groups are punctuated
                return promised if promised is not None else np.full(len(ticks), NOTHING)

    def _restore(self, codes: Codes, bounds: Ints, sizes: Ints | None, recent: Ints | None) -> Ints:
        """Go on from bounds and from what was held back, `sizes` of each; the bounds there are.
        What SLACK does not hold back any more, because it was changed, is released."""
        if self._held is not None and sizes is not None and recent is not None:
            released = self._held.released(codes, sizes, recent)
            bounds = np.maximum(bounds, highest_of_each(sizes, released))
        self._reserve(int(codes.max(initial=-1)) + 1)
        self._bounds[codes] = bounds
        return bounds

    def _recent(self, codes: Codes) -> tuple[Ints, Ints]:
        """What SLACK holds back of some sub-sources: how many of each, and the ticks."""
        if self._held is None:
            return np.zeros(len(codes), np.int64), np.zeros(0, np.int64)
        return self._held.of(codes)


def highest_of_each(sizes: Ints, values: Ints) -> Ints:
    """Of values that belong to several, `sizes` to each; NOTHING where there are none.

    >>> highest_of_each(np.array([2, 0, 1]), np.array([3, 9, 4])).tolist()[::2]
    [9, 4]
    """
    found = np.full(len(sizes), NOTHING)
    some = np.flatnonzero(sizes)
    if len(some):
        found[some] = np.maximum.reduceat(values, (np.cumsum(sizes) - sizes)[some])
    return found


def within_ticks(bound: float) -> int:
    """A bound as a tick: NOTHING if it is below all, the highest if it is above all."""
    if bound <= NOTHING:
        return NOTHING
    return INT64_MAX if bound >= INT64_MAX else int(bound)
