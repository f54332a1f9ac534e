"""Of rows that leave in the order of their times, the first one of every partition, and none of a
partition that has had one: `row_number() … = 1`.

Partitions have codes, and a row finds the first one of its own in a table by them, so that nothing
is sorted but the few rows that share their time with the first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.folding.scatter import grown
from penstock.operators.over.row_order import RowOrder


class FirstOfEach:
    def __init__(self, order: RowOrder) -> None:
        self._order = order
        self._first: Ints = np.zeros(0, np.int64)  # by code: means something for those asked for

    def of(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> Ints:
        """The places of the first rows, ascending; `ticks` ascend."""
        size = len(codes)
        if not size:
            return np.zeros(0, np.int64)
        self._first = grown(self._first, int(codes.max()) + 1, 0)
        places = np.arange(size)
        self._first[codes[::-1]] = places[::-1]  # the last that is written is the first row
        first = self._first[codes]
        chosen = first == places
        tied = np.flatnonzero(~chosen & (ticks[first] == ticks))
        if len(tied):
            self._decide(rows, codes, ticks, tied, chosen)
        return np.flatnonzero(chosen)

    def _decide(
        self, rows: pa.RecordBatch, codes: Codes, ticks: Ints, tied: Ints, chosen: Mask
    ) -> None:
        """Among rows that come at the time of the first one, by the rest of the order."""
        own = np.unique(np.concatenate([tied, self._first[codes[tied]]]))
        chosen[own] = False
        part = rows.take(pa.array(own))
        order = self._order.sort(part, codes[own], ticks[own]).places
        in_order = codes[own][order]
        begins = np.ones(len(own), np.bool_)
        begins[1:] = in_order[1:] != in_order[:-1]
        chosen[own[order[begins]]] = True
