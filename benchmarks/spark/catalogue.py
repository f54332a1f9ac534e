"""All benchmarks on Spark by name, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.nexmark import on_spark as nexmark
from benchmarks.result import Result
from benchmarks.spark import (
    four_million,
    groups,
    joins,
    micro_batches,
    ratios,
    resuming,
    row_windows,
    sessions,
    shared_queries,
    small_batches,
)

BENCHMARKS: dict[str, Callable[[bool], Result]] = {
    "micro_batches": micro_batches.run,
    "small_batches": small_batches.run,
    "spark_ratios": ratios.run,
    "spark_groups": groups.run,
    "row_windows": row_windows.run,
    "resuming": resuming.run,
    "four_million": four_million.run,
    "spark_joins": joins.run,
    "spark_sessions": sessions.run,
    "spark_shared_queries": shared_queries.run,
    "spark_nexmark": nexmark.run,
}
