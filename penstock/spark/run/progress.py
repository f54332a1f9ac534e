"""How a run on Spark is doing."""

from __future__ import annotations

from penstock.runs.status import RunProgress
from penstock.spark.run.outcome import Tally


def progress_of(
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
        list(tally.operators.values()),
    )
