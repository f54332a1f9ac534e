"""Signed rows of a window aggregation: what is taken back, and what is given instead."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.operators.batch import Batch, Signs
from penstock.operators.folding.folder import Folder
from penstock.operators.revising.emitted import Groups
from penstock.operators.windows.results import window_columns
from penstock.plan.nodes.aggregates import WindowAggregate


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

    def batch(self) -> Batch | None:
        if not self._said:
            return None
        ids = np.concatenate(self._ids)
        columns = _columns(self._node, self._folder, ids, joined(self._said))
        return signed(columns, self._node.schema.arrow, np.concatenate(self._signs))


def result_rows(
    node: WindowAggregate, folder: Folder, found: list[tuple[int, Groups]]
) -> pa.RecordBatch:
    """Results of windows as rows, in the order in which they are given."""
    schema = node.schema.arrow
    if not found:
        return pa.RecordBatch.from_pylist([], schema)
    ids = np.repeat([wid for wid, _ in found], [len(groups) for _, groups in found])
    columns = _columns(node, folder, ids, joined([groups for _, groups in found]))
    return pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)


def _columns(node: WindowAggregate, folder: Folder, ids: Ints, groups: Groups) -> list[pa.Array]:
    return [*window_columns(node, ids), *folder.keys.take(groups.codes), *groups.columns]


def joined(several: list[Groups]) -> Groups:
    """Groups behind each other."""
    if len(several) == 1:
        return several[0]
    columns = zip(*(groups.columns for groups in several), strict=True)
    codes = np.concatenate([groups.codes for groups in several])
    return Groups(codes, [pa.concat_arrays(parts) for parts in columns])


def signed(columns: list[pa.Array], schema: pa.Schema, signs: Signs) -> Batch:
    """The columns in the types of a schema, and a sign for each row."""
    batch = pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)
    return Batch(batch, signs)


def typed(columns: list[pa.Array], types: list[pa.DataType]) -> list[pa.Array]:
    pairs = zip(columns, types, strict=True)
    return [column if column.type == each else column.cast(each) for column, each in pairs]
