"""The root of a plan: what happens to late tuples, and how results are handed out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.errors import PlanError
from penstock.model.duration import format_duration
from penstock.plan.node import Node, Unary


class Late(Enum):
    DROP = "DROP"  # counted, nothing more
    SIDE = "SIDE"  # counted, and delivered with the windows they missed
    AMEND = "AMEND"  # counted in their windows all the same; released results are revised


@dataclass(frozen=True)
class Query(Unary):
    input: Node
    late: Late = Late.DROP
    early_every: int | None = None  # microseconds between provisional answers
    in_order: bool = False

    def __post_init__(self) -> None:
        if self.early_every is not None and self.early_every <= 0:
            raise PlanError("EMIT EARLY EVERY needs a time longer than zero")
        if self.in_order and not self.input.progress:
            raise PlanError("EMIT IN ORDER needs a column that progresses")

    def details(self) -> list[str]:
        words = [f"Query LATE {self.late.value}"]
        if self.early_every is not None:
            words.append(f"EMIT EARLY EVERY {format_duration(self.early_every)}")
        if self.in_order:
            words.append("EMIT IN ORDER")
        return [" ".join(words)]
