"""Streams whose tuples get their times from Penstock: the column that those are in."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.clock import Clock
from penstock.model.types import TIMESTAMP
from penstock.plan.streams import StreamDefinition


def stamped_now(
    stream: StreamDefinition, batch: pa.RecordBatch, clock: Clock
) -> tuple[pa.RecordBatch, list[int]]:
    """INTERNAL: every tuple has the time at which it came in; the stamps as they were read."""
    stamps = [clock.now() for _ in range(batch.num_rows)]
    return _with_stamps(stream, batch, pa.array(stamps, TIMESTAMP.arrow)), stamps


def stamped_later(stream: StreamDefinition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """LATENT: there is a column for the stamps, if the stream has one."""
    if not stream.stamped:
        return batch
    return _with_stamps(stream, batch, pa.nulls(batch.num_rows, TIMESTAMP.arrow))


def _with_stamps(
    stream: StreamDefinition, batch: pa.RecordBatch, stamps: pa.Array
) -> pa.RecordBatch:
    position = stream.schema.index(stream.attribute.name)
    return batch.add_column(position, stream.attribute.name, stamps)
