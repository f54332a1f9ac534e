"""The state of a whole run: its operators and how far its sources have been read.

A run goes on from a checkpoint if its sources can be read again from their beginning and give the
same rows in the same order; what had been read is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.run import LocalRun, SharedScan
from penstock.errors import CheckpointError
from penstock.operators.chunks import ChunkStore, Tree, Within
from penstock.sources.source import Chunk


def save_run(run: LocalRun, store: ChunkStore) -> None:
    """Between any two chunks."""
    store.put("run", _shape(run))
    for stage in run.stages:
        stage.operator.save(_of_operator(store, stage.name))
    for number, scan in enumerate(run.scans):
        scan.ingest.save(Within(store, f"sources/{number}/"))


def load_run(run: LocalRun, store: ChunkStore) -> None:
    """Into a run that has read nothing yet."""
    saved = store.get("run")
    if saved is None:
        return
    if saved != _shape(run):
        raise CheckpointError(
            "the checkpoint is of other queries than these",
            expected=_described(saved),
            hint="start without a checkpoint, or run the queries that it is of",
        )
    for stage in run.stages:
        stage.operator.load(_of_operator(store, stage.name))
    for number, scan in enumerate(run.scans):
        scan.ingest.load(Within(store, f"sources/{number}/"))


def unread(scan: SharedScan) -> Iterator[Chunk]:
    """The chunks of a source without the rows that had been read before."""
    left = scan.ingest.read
    for chunk in scan.ingest.chunks():
        rows = chunk.batch.num_rows
        if left < rows or not rows:
            yield Chunk(chunk.batch.slice(left), chunk.part, chunk.position) if left else chunk
        left = max(0, left - rows)


def _of_operator(store: ChunkStore, name: str) -> ChunkStore:
    # the name of an operator begins with that of the one behind it, its chunks must not
    return Within(store, f"operators/{name.replace('/', '.')}/")


def _shape(run: LocalRun) -> Tree:
    operators = {stage.name: type(stage.operator).__name__ for stage in run.stages}
    return {"operators": operators, "sources": [scan.name for scan in run.scans]}


def _described(shape: Tree) -> str:
    return " ".join([*shape["operators"].values(), "on", *shape["sources"]])
