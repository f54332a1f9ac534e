"""Lengths that are given before it is known which column they are measured on."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from penstock.model.domain import Domain
from penstock.model.duration import format_duration


@dataclass(frozen=True, slots=True)
class Length:
    """Microseconds of time, or a plain number.

    >>> from penstock.model.types import DATE
    >>> Length(microseconds=172_800_000_000).ticks(Domain(DATE))
    2
    """

    microseconds: int | None = None
    number: Decimal = Decimal(0)  # where it is not a length of time

    def ticks(self, domain: Domain) -> int:
        if self.microseconds is not None:
            return domain.length_of_time(self.microseconds)
        return domain.length_of_number(self.number)

    def __str__(self) -> str:
        if self.microseconds is not None:
            return format_duration(self.microseconds)
        return str(self.number)
