"""Streams whose tuples get their times from Penstock: the column that those are in."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.types import TIMESTAMP
from penstock.plan.streams import StreamDefinition


def stamped(stream: StreamDefinition, batch: pa.RecordBatch, stamps: list[int]) -> pa.RecordBatch:
    """INTERNAL: every tuple has the time at which it came in."""
    return _with_stamps(stream, batch, pa.array(stamps, TIMESTAMP.arrow))


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
