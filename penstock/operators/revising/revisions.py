"""Signed rows of a window aggregation: what is taken back, and what is given instead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.batch import SIGN
from penstock.operators.folding.folder import Folder
from penstock.operators.revising.emitted import Groups
from penstock.operators.windows.results import window_columns
from penstock.plan.aggregates import WindowAggregate

Signs = npt.NDArray[np.int8]


class Revisions:
    """Gathers what is to be said of several windows, and makes one batch of it."""

    def __init__(self, node: WindowAggregate, folder: Folder) -> None:
        self._node = node
        self._folder = folder
        self._ids: list[Ints] = []
        self._said: list[Groups] = []
        self._signs: list[Signs] = []

    def add(self, wid: int, taken: Groups | None, given: Groups) -> None:
        for sign, groups in ((-1, taken), (1, given)):
            if groups is not None and len(groups):
                groups = groups.in_order(self._folder.keys.order_of(groups.codes))
                self._ids.append(np.full(len(groups), wid, np.int64))
                self._said.append(groups)
                self._signs.append(np.full(len(groups), sign, np.int8))

    def batch(self) -> pa.RecordBatch | None:
        if not self._said:
            return None
        groups = joined(self._said)
        keys = self._folder.keys.take(groups.codes)
        columns = [*window_columns(self._node, np.concatenate(self._ids)), *keys, *groups.columns]
        return signed(columns, self._node.schema.arrow, np.concatenate(self._signs))


def joined(several: list[Groups]) -> Groups:
    """Groups behind each other."""
    if len(several) == 1:
        return several[0]
    columns = zip(*(groups.columns for groups in several), strict=True)
    codes = np.concatenate([groups.codes for groups in several])
    return Groups(codes, [pa.concat_arrays(parts) for parts in columns])


def signed(columns: list[pa.Array], schema: pa.Schema, signs: Signs) -> pa.RecordBatch:
    """The columns in the types of a schema, and a sign for each row."""
    batch = pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)
    return batch.append_column(SIGN, pa.array(signs, pa.int8()))


def typed(columns: list[pa.Array], types: list[pa.DataType]) -> list[pa.Array]:
    pairs = zip(columns, types, strict=True)
    return [column if column.type == each else column.cast(each) for column, each in pairs]
