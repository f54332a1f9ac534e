"""A stage in a batch job: one bucket after the other, each from beginning to end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.model.batch import SIGN
from penstock.model.clock import SystemClock
from penstock.runs.final_rows import final_rows
from penstock.spark.plan.config import StageConfig
from penstock.spark.run.outcome import all_signed
from penstock.spark.stateful.bucket import Bucket
from penstock.spark.stateful.registers import SourceRegister
from penstock.spark.tasks.messages import (
    PACKED_ARROW,
    Message,
    Packed,
    PackedKind,
    in_pieces,
    pack_rows,
    packed_batch,
    unpack_rows,
)


def at_once(config: StageConfig) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """A stage in a batch job: one bucket after the other, from beginning to end."""

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        now, own = SystemClock().now(), config.identity.stage
        given = [Packed(**row) for row in table.to_pylist()]
        passing = table.filter(pa.array([not each.is_for(own) for each in given]))
        messages = sorted((each for each in given if each.is_for(own)), key=lambda each: each.place)
        if not messages:  # all of it is for others
            return passing
        bucket = Bucket(config, config.bucket_keys.index(key[0].as_py()), now)
        packed = list(bucket.take_in([Message.unpack(each.payload) for each in messages], now))
        for register in bucket.registers:
            if isinstance(register, SourceRegister):
                register.finish()
        packed += bucket.take_in([], now)
        if config.destination.stage is None and not config.signed:
            packed = final(packed, config.destination.width)
        made = pa.Table.from_batches(map(packed_batch, in_pieces(packed)), PACKED_ARROW)
        return pa.concat_tables([passing.cast(made.schema), made])

    return run


def final(packed: list[Packed], width: int) -> list[Packed]:
    """Without the results that were taken back, if there are such: those of a group are all here,
    and a table has no use for signs, which are a column more than results have (`width`)."""
    results = [each for each in packed if each.kind is PackedKind.ROWS]
    tables = [unpack_rows(each.payload) for each in results]
    if all(table.num_columns == width for table in tables):
        return packed
    batches = [batch for table in tables for batch in table.to_batches()]
    table = pa.Table.from_batches(all_signed(batches))
    if np.asarray(table.column(SIGN)).min() > 0:
        return packed
    left = final_rows(table)
    left = left.append_column(SIGN, pa.array(np.ones(left.num_rows, np.int8)))
    others = [each for each in packed if each.kind is not PackedKind.ROWS]
    batches = left.combine_chunks().to_batches()
    return [
        *others,
        *(Packed(results[0].bucket, PackedKind.ROWS, pack_rows(each)) for each in batches),
    ]
