"""One run of workload A with a checkpoint, in a process that may be killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from time import monotonic

from benchmarks.spark.contest import penstock_query
from benchmarks.workloads import A


def main(folder: Path, part: str) -> None:
    begin = monotonic()
    query = penstock_query(A.sql, folder / "in")
    started = query.start(folder / part / "out", checkpoint=folder / part / "checkpoint")
    streaming = started._run.streaming
    assert streaming is not None
    while not streaming.recentProgress and streaming.isActive:
        streaming.awaitTermination(0.01)
    since_start = monotonic() - begin
    streaming.awaitTermination()
    progress = streaming.recentProgress  # of the run that reads; waiting ends it with another
    started.wait()
    batches = [each.durationMs["triggerExecution"] / 1000 for each in progress]
    first = {"batch": progress[0].batchId, "seconds": batches[0], "since_start": since_start}
    print(json.dumps({"first": first, "steady": median(batches[1:] or batches)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
