"""Names and amounts, as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from penstock.errors import Span

ROW_UNITS = ("ROW", "ROWS", "TUPLE", "TUPLES")


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """`5 MINUTES`, `1000 ROWS`, `100`, `'1 hour'`; the unit is upper-case or None."""

    amount: Decimal
    unit: str | None
    span: Span

    @property
    def is_rows(self) -> bool:
        return self.unit in ROW_UNITS

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}" if self.unit else str(self.amount)
