"""How closely the rows of a query follow its input: CONSISTENCY SERIAL, LEVEL k or WEAK."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.errors import PlanError, Span


class Following(Enum):
    SERIAL = "SERIAL"  # after every tuple that comes
    LEVEL = "LEVEL"  # at the latest when k rows have left
    WEAK = "WEAK"  # at the end


@dataclass(frozen=True, slots=True)
class Consistency:
    """Where the rows that have left are those that would have left if every tuple were handled
    before the next one came.  With LEVEL, fewer than `rows` leave between such a moment and the
    tuple that brings the next one about.

    >>> str(Consistency(Following.LEVEL, 100)), Consistency(Following.SERIAL).at_most
    ('CONSISTENCY LEVEL 100', 1)
    """

    following: Following
    rows: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.rows is not None) is not (self.following is Following.LEVEL):
            raise PlanError("a number of rows belongs to LEVEL")
        if self.rows is not None and self.rows < 1:
            raise PlanError(f"CONSISTENCY LEVEL {self.rows}", expected="1 row or more")

    @property
    def at_most(self) -> int | None:
        """After how many rows they have to agree; None: nobody looks before the end."""
        return 1 if self.following is Following.SERIAL else self.rows

    def __str__(self) -> str:
        words = f"CONSISTENCY {self.following.value}"
        return words if self.rows is None else f"{words} {self.rows}"
