"""The promise of a source by its definition: tuple by tuple."""

from __future__ import annotations

from penstock.kernel.progress.sub_sources import NOTHING
from penstock.model.punctuation import BEGINNING, Bound, Rule, RunningBound
from penstock.reference.scan import LowWatermark


class OneByOne:
    """`RunningBound` for each sub-source, and `LowWatermark` of all."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._low = LowWatermark()
        self._bounds: dict[int, RunningBound] = {}
        self.waited_for: set[int] = set()

    @property
    def low(self) -> Bound:
        return self._low.value

    def take(self, code: int, tick: int, punctuates: bool = False) -> Bound:
        """The bound before a tuple, or a punctuation."""
        if code not in self.waited_for:
            start = self._low.add(code)
            self._bounds.setdefault(code, RunningBound(self._rule)).raise_to(start)
            self.waited_for.add(code)
        own = self._bounds[code]
        before = own.bound
        if punctuates:
            own.raise_to(tick)
        else:
            own.observe(tick)
        self._low.advance(code, own.bound)
        return before

    def leave_out(self, code: int) -> None:
        self._low.leave(code)
        self.waited_for.remove(code)

    def raise_to(self, bound: int) -> None:
        self._low.raise_to(bound)
        for code in self.waited_for:
            self._bounds[code].raise_to(bound)

    @property
    def held_back_by(self) -> list[int]:
        return sorted(int(str(code)) for code in self._low.held_back_by)


def bound_of(tick: int) -> Bound:
    return BEGINNING if tick == NOTHING else tick


def meaningful(bound: Bound) -> Bound:
    """A bound below all ticks is as good as none."""
    return BEGINNING if bound <= NOTHING else bound
