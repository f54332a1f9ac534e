"""What EXPLAIN and SHOW answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Explanation:
    """A text, and what it shows as a table if that has other columns than the lines of a plan."""

    text: str
    shown: pa.Table | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def table(self) -> pa.Table:
        if self.shown is not None:
            return self.shown
        return pa.table({"plan": self.text.splitlines()})
