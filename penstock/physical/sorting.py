"""By what the rows of an operator leave in order, where they do so by themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.physical.asked import Steps
from penstock.plan.expressions import Expression


@dataclass(frozen=True, slots=True)
class Sorting:
    """Rows leave in the order of an expression of their columns; `above` is what they go through
    before they leave the query."""

    by: Expression
    above: Steps = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"sorted by {self.by}"
