"""array_agg: the values of a group in an ARRAY, by keys if they are given, by position, by value;
never as they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.sizes import check_values
from penstock.model.arrays import Codes
from penstock.model.types import Type
from penstock.operators.aggregates.lists.runs import Holistic, Runs
from penstock.operators.joins.sequences.value_order import value_ranks


class Listed(Holistic):
    """`directions` has a letter for every key behind the value: a for ascending, d for the other
    way round."""

    def __init__(self, result: Type, directions: str) -> None:
        self.result = result
        self.directions = directions

    def finish(self, partial: Runs, codes: Codes) -> pa.Array:
        groups, columns, positions = partial.gather(codes)
        item = self.result.item.arrow
        if not len(groups):
            return pa.nulls(len(codes), self.result.arrow)
        value, *keys = columns[: 1 + len(self.directions)]
        if pa.types.is_floating(value.type):
            value = pc.add(value, 0.0)  # there is one zero
        ranks = [
            value_ranks_of(key) * (1 if direction == "a" else -1)
            for key, direction in zip(keys, self.directions, strict=True)
        ]
        order = np.lexsort([value_ranks([value]), positions, *reversed(ranks), groups])
        sizes = np.bincount(groups, minlength=len(codes))
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        items = value.take(pa.array(order)).cast(item)
        lists = check_values(
            pa.ListArray.from_arrays(pa.array(ends), items, type=self.result.arrow)
        )
        return lists if sizes.all() else _without_empty(lists, sizes == 0)


def value_ranks_of(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Numbers in the order of values, the same for equal ones."""
    encoded = column.dictionary_encode()
    ranks = value_ranks([encoded.dictionary])
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = ranks[np.asarray(encoded.indices)]
    return found


def _without_empty(lists: pa.Array, empty: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    return lists.take(pa.array(np.arange(len(lists)), mask=empty))
