"""How far progress has to come before an operator makes something of it."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.operator import Progress


class Stride(NamedTuple):
    """From one multiple of a length to the next, counted from an origin, in a column.

    >>> stride = Stride("s.t", origin=0, every=10)
    >>> [stride.passed(Progress({"s.t": bound})) for bound in (3, 19, 20)]
    [0, 1, 2]
    """

    column: str  # by its qualified name
    origin: int
    every: int

    def passed(self, progress: Progress) -> Bound:
        """The same number says the same."""
        bound = progress.bounds.get(self.column, BEGINNING)
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.origin) // self.every
