"""The answers of the workloads by bytewax, one Python object per event; for those who have it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

import pyarrow as pa

from benchmarks.workloads import Workload

AVAILABLE = find_spec("bytewax") is not None


def folding(table: pa.Table, workload: Workload) -> Callable[[], pa.Table]:
    """A flow that computes count and sum per key; what it needs is imported and made here."""
    import bytewax.operators as op
    import bytewax.operators.windowing as windowing
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    columns = [table.column(name).to_pylist() for name in ("k", "len", "ts")]
    events = [  # it wants the UTC of the standard library
        (str(k), (length, ts.replace(tzinfo=UTC))) for k, length, ts in zip(*columns, strict=True)
    ]
    # Its bound moves with the clock as well, so it waits long enough for nothing to be late.
    clock = windowing.EventClock(lambda event: event[1], timedelta(seconds=600))
    slide, epoch = timedelta(seconds=workload.slide), datetime(1970, 1, 1, tzinfo=UTC)
    if workload.range == workload.slide:
        windower = windowing.TumblingWindower(length=slide, align_to=epoch)
    else:
        windower = windowing.SlidingWindower(
            length=timedelta(seconds=workload.range), offset=slide, align_to=epoch
        )

    def run() -> pa.Table:
        found: list[tuple[str, tuple[int, tuple[int, int]]]] = []
        flow = Dataflow("benchmark")
        stream = op.input("events", flow, TestingSource(events, batch_size=1 << 10))
        out = windowing.fold_window(
            "fold",
            stream,
            clock,
            windower,
            lambda: (0, 0),
            lambda sofar, event: (sofar[0] + 1, sofar[1] + event[0]),
            lambda one, other: (one[0] + other[0], one[1] + other[1]),
        )
        op.output("out", out.down, TestingSink(found))
        run_main(flow)
        ahead = workload.range // workload.slide - 1  # it numbers windows by their beginnings
        rows = [(window + ahead, int(k), n, total) for k, (window, (n, total)) in found]
        names = ("w", "k", "n", "bytes")
        return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    return run
