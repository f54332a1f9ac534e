"""Fewer and larger batches than Spark hands over."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_AT_ONCE = 1 << 17  # rows that a task handles together


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _AT_ONCE:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows = [], 0
    if rows:
        yield pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]
