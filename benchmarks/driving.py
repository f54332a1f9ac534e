"""Driving kernel operators without an engine, so that algorithms can be swapped and watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.io.sources.rejects import RejectLog
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Operator, Progress
from penstock.kernel.progress.ingest import Ingest
from penstock.kernel.windows.adapt_wid import AdaptWid
from penstock.kernel.windows.buffering import Buffering
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.wid import Wid
from penstock.model.clock import SystemClock
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.node import Scan

Make = Callable[[WindowAggregate], Operator]

ALGORITHMS: dict[str, Make] = {
    "WID": Wid,
    "Paned-WID": Paned,
    "AdaptWID": AdaptWid,
    "buffering": Buffering,
}


def aggregation(sql: str, batches: object, schema: pa.Schema, **promise: Any) -> WindowAggregate:
    """The window aggregate of a query over a stream `s`; `promise` is what its progress says."""
    attribute, *_ = (name for name in ("ts", "t") if name in schema.names)
    database = ps.connect()
    progress = ps.progress(attribute, **(promise or {"ordered": True}))
    database.stream("s", batches, schema=schema, progress=progress)
    query = database.sql(sql)
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, WindowAggregate))


def ingested(node: WindowAggregate) -> Iterator[Item]:
    assert isinstance(node.input, Scan)
    return Ingest(node.input, SystemClock(), RejectLog()).items()


def feed(operator: Operator, item: Item) -> Iterable[Item]:
    if isinstance(item, Progress):
        return operator.on_progress(0, item)
    assert isinstance(item, Batch)
    return operator.on_batch(0, item)


def drive(operator: Operator, items: Iterable[Item]) -> list[pa.RecordBatch]:
    """All items through an operator: the rows that come out."""
    rows: list[pa.RecordBatch] = []
    for item in items:
        rows += [out.rows for out in feed(operator, item) if isinstance(out, Batch)]
    return rows


def answer(node: WindowAggregate, make: Make, items: Iterable[Item]) -> pa.Table:
    return pa.Table.from_batches(drive(make(node), items), node.schema.arrow)
