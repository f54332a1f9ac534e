"""A stage in a batch job: one bucket after the other, each from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from penstock.spark.tasks.step_work import SHUFFLE, StepName, StepWork, work_done


def at_once(*configs: StageConfig) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Stages in a batch job: one bucket after the other, from beginning to end."""

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        now, own = SystemClock().now(), {each.identity.stage: each for each in configs}
        given = [Packed(**row) for row in table.to_pylist()]
        mine = [each.kind == PackedKind.MESSAGE and each.stage in own for each in given]
        passing = table.filter(pa.array([not each for each in mine]))
        messages = [each for each, is_mine in zip(given, mine, strict=True) if is_mine]
        packed: list[Packed] = []
        for number, config in own.items():
            of_stage = [each for each in messages if each.stage == number]
            if of_stage:
                packed += _of_bucket(config, key[0].as_py(), of_stage, now)
        if not packed:  # all of it is for others
            return passing
        made = pa.Table.from_batches(map(packed_batch, in_pieces(packed)), PACKED_ARROW)
        return pa.concat_tables([passing.cast(made.schema), made])

    return run


def _of_bucket(config: StageConfig, key: int, messages: list[Packed], now: int) -> list[Packed]:
    bucket = Bucket(config, config.bucket_keys.index(key), now)
    in_order = sorted(messages, key=lambda each: each.place)
    packed = list(bucket.take_in([Message.unpack(each.payload) for each in in_order], now))
    # how the bucket is doing is said once, at the end; what was counted so far stays
    packed = [
        replace(each, payload=b"") if each.kind is PackedKind.STATUS else each for each in packed
    ]
    for register in bucket.registers:
        if isinstance(register, SourceRegister):
            register.finish()
    packed += bucket.take_in([], now)
    if config.analyzed:
        name = StepName(config.identity.stage, 0, SHUFFLE)
        came = StepWork(len(messages), sum(len(each.payload) for each in messages))
        packed.append(Packed(packed[-1].bucket, PackedKind.STATUS, work_done([(name, came)])))
    for each in config.destinations:
        if each.stage is None and not each.signed:
            packed = final(packed, each.width, each.query)
    return packed


def final(packed: list[Packed], width: int, query: int = 0) -> list[Packed]:
    """Without the results of a query that were taken back, if there are such: those of a group are
    all here, and a table has no use for signs, which are a column more than results have
    (`width`)."""
    results = [each for each in packed if _are_results(each, query)]
    tables = [unpack_rows(each.payload) for each in results]
    if all(table.num_columns == width for table in tables):
        return packed
    batches = [batch for table in tables for batch in table.to_batches()]
    table = pa.Table.from_batches(all_signed(batches))
    if np.asarray(table.column(SIGN)).min() > 0:
        return packed
    left = final_rows(table)
    left = left.append_column(SIGN, pa.array(np.ones(left.num_rows, np.int8)))
    others = [each for each in packed if not _are_results(each, query)]
    key, batches = results[0].bucket, left.combine_chunks().to_batches()
    made = [Packed(key, PackedKind.ROWS, pack_rows(each), query=query) for each in batches]
    return [*others, *made]


def _are_results(packed: Packed, query: int) -> bool:
    return packed.kind is PackedKind.ROWS and packed.query == query
