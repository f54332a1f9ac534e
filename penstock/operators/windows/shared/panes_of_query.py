"""The panes of several queries as one of them sees them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.folding.folder import Folder, Partials
from penstock.operators.windows.panes.contents import Change, Panes
from penstock.operators.windows.panes.kept import KeptPanes


class PanesOfQuery(Panes):
    """Some aggregates of panes, from where the query has come to: what it drops, others may still
    need.  An aggregate without a place is the number of rows."""

    def __init__(self, whole: KeptPanes, folder: Folder, aggregates: Sequence[int | None]) -> None:
        super().__init__(folder)
        self._whole = whole
        self._aggregates = tuple(aggregates)
        self.passed: Bound = BEGINNING  # below it, nothing is needed any more

    def open(self, number: int) -> Partials:  # noqa: ARG002
        raise AssertionError("a query does not fold into panes that it shares")

    def get(self, number: int) -> Partials | None:
        pane = self._whole.get(number) if number >= self.passed else None
        if pane is None:
            return None
        parts = [pane.rows if place is None else pane.parts[place] for place in self._aggregates]
        return Partials(pane.rows, parts)

    def drop(self, number: int) -> None:
        self.passed = max(self.passed, number + 1)

    def drop_before(self, number: int) -> None:
        self.passed = max(self.passed, number)

    @property
    def _numbers_left(self) -> list[int]:
        numbers = self._whole.numbers
        return numbers[bisect_left(numbers, self.passed) :]

    def numbered(self) -> list[tuple[int, Partials]]:
        found = [(number, self.get(number)) for number in self._numbers_left]
        return [(number, pane) for number, pane in found if pane is not None]

    def renumber(self, change: Change) -> None:
        """The panes are renumbered where they are kept."""

    def lowest(self) -> int | None:
        return self.lowest_from(self.passed)

    def lowest_from(self, number: Bound) -> int | None:
        numbers = self._whole.numbers
        place = bisect_left(numbers, max(number, self.passed))
        return numbers[place] if place < len(numbers) else None

    def highest(self) -> int | None:
        numbers = self._whole.numbers
        return numbers[-1] if numbers and numbers[-1] >= self.passed else None

    def between(self, begin: int, end: int) -> list[int]:
        first = begin if self.passed == BEGINNING else max(begin, int(self.passed))
        return self._whole.between(first, end)
