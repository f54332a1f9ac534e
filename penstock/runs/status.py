"""How a run is doing, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.operators.measured import OperatorStatus


@dataclass
class SourceStatus:
    """How far a stream has come: bounds in ticks of its progressing attribute, and the sub-sources
    that hold it back."""

    stream: str
    low: float
    high: float
    ended: bool
    waits_for: list[str]
    low_text: str | None = None  # `low` as a value of the attribute


@dataclass(frozen=True, slots=True)
class RunProgress:
    batches: int
    read: int
    rows_per_second: float  # of the last micro-batch
    late: int
    rejected: int
    rows: int  # results so far
    state_bytes: int
    open_windows: int | None  # or groups, where there are no windows; None: nobody has said
    sources: list[SourceStatus]
    operators: list[OperatorStatus] = field(default_factory=list)  # from the sink to the sources


Watch: TypeAlias = Callable[[RunProgress], None]
