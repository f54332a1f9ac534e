"""How a run on Spark is doing, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.spark.outcome import SourceStatus, Tally


@dataclass(frozen=True, slots=True)
class RunProgress:
    batches: int
    read: int
    rows_per_second: float  # of the last micro-batch
    late: int
    rejected: int
    rows: int  # results so far
    state_bytes: int
    open_windows: int | None  # where that is known
    sources: list[SourceStatus]

    @staticmethod
    def of(
        tally: Tally, batches: int, rows_per_second: float = 0.0, state_bytes: int = 0
    ) -> RunProgress:
        return RunProgress(
            batches,
            tally.read,
            rows_per_second,
            tally.late,
            tally.rejected,
            tally.rows,
            state_bytes,
            tally.open_windows,
            tally.sources,
        )


Watch: TypeAlias = Callable[[RunProgress], None]
