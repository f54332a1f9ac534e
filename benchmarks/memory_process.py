"""Workload A over events that are made as they are read; results are thrown away, so what remains
is the state: python -m benchmarks.memory_process COUNT

Prints the rows of the answer and the highest memory in kB.  Imports no more than it needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.driving import feed, ingested
from benchmarks.workloads import A, slices
from penstock.kernel.batch import Batch
from penstock.kernel.windows.paned import Paned
from penstock.plan.nodes.aggregation import WindowAggregate


class Fresh:
    """Events that are made anew whenever they are read, and never kept."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return slices(self.count, rows=1 << 16)


def rows_of(count: int) -> int:
    """How many rows A makes of so many events."""
    node = next(n for n in A.query(Fresh(count)).walk() if isinstance(n, WindowAggregate))
    operator = Paned(node)
    rows = 0
    for item in ingested(node):
        for out in feed(operator, item):
            rows += out.num_rows if isinstance(out, Batch) else 0
    return rows


def highest_memory() -> int:
    """In kB.  `getrusage` would not do: its maximum outlives fork and exec, so that a child starts
    with that of its parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(rows_of(int(sys.argv[1])), highest_memory())
