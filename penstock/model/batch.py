"""Batches: Arrow record batches of a stream's schema, optionally with a sign per item.

A negative item takes back an equal positive one: a window expired, a revision replaced a row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlanError
from penstock.model.names import HIDDEN, free_name

SIGN = f"{HIDDEN}sign"  # inside; `sign_name` is what it is called outside


def sign_name(names: Iterable[str]) -> str:
    """What the column of signs is called beside the columns of an answer."""
    return free_name("_sign", names)


def has_sign(batch: pa.RecordBatch) -> bool:
    return SIGN in batch.schema.names


def signs(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """+1 or −1 for every item; items of a batch without a sign column are positive."""
    if not has_sign(batch):
        return np.ones(batch.num_rows, dtype=np.int8)
    return np.asarray(batch.column(SIGN), dtype=np.int8)


def with_signs(batch: pa.RecordBatch, values: npt.NDArray[np.int8]) -> pa.RecordBatch:
    if len(values) != batch.num_rows:
        raise PlanError(f"{len(values)} signs for {batch.num_rows} items")
    if not np.isin(values, (-1, 1)).all():
        raise PlanError("a sign is +1 or -1")
    column = pa.array(values, pa.int8())
    if has_sign(batch):
        return batch.set_column(batch.schema.get_field_index(SIGN), SIGN, column)
    return batch.append_column(SIGN, column)


def positive(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The positive items alone, without the sign column."""
    if not has_sign(batch):
        return batch
    return batch.filter(pc.greater(batch.column(SIGN), 0)).drop_columns([SIGN])
