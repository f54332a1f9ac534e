"""Tuples of a task beside the bounds that had been promised before their micro-batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.types import Type
from penstock.operators.batch import Batch
from penstock.operators.ticks import to_ticks
from penstock.promises.by_sub_source import NOTHING
from penstock.spark.tasks.chain import Chain


def marked(batch: Batch, before: Ints, name: str, chain: Chain, types: dict[str, Type]) -> Batch:
    """The batch with the bounds that its rows broke: those that their task knew of, and those from
    `before`, which are ticks of the column `name` of the scan."""
    promised = before > NOTHING
    mapped = chain.bounds({name: before[promised]})
    rows, broken = batch.rows, {}
    for column, sql_type in types.items():
        bounds = np.full(batch.num_rows, NOTHING)
        if column in mapped:
            bounds[promised] = mapped[column]
        own = (batch.broken or {}).get(column)
        if own is not None:
            bounds = np.maximum(bounds, np.asarray(own.fill_null(NOTHING)))
        ticks = to_ticks(rows.column(rows.schema.get_field_index(column)), sql_type)
        broken[column] = pa.array(bounds, mask=ticks >= bounds)
    kept = all(column.null_count == len(column) for column in broken.values())
    return replace(batch, broken=None if kept else broken)
