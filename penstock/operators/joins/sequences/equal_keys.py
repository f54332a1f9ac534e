"""Expressions of two inputs that have to be equal, as numbers that tuples of both share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes
from penstock.model.schema import Schema
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.joins.shared_codes import can_be_equal
from penstock.plan.expressions import Expression

NO_KEY = -1  # the code of a tuple that equals none: NULL and NaN equal nothing
_MANY = 4096  # keys below which none is forgotten


class EqualKeys:
    """Without any pair of expressions there is one key, and all tuples have it."""

    def __init__(
        self, schemas: Sequence[Schema], pairs: Sequence[tuple[Expression, Expression]]
    ) -> None:
        self._types = [left.type for left, _ in pairs]
        self._columns = [
            [compile_expression(pair[port], schema) for pair in pairs]
            for port, schema in enumerate(schemas)
        ]
        self._codes = KeyCodes(self._types)
        self._look_again = _MANY

    def __len__(self) -> int:
        return len(self._codes)

    def of(self, port: int, rows: pa.RecordBatch) -> Codes:
        columns = [column(rows) for column in self._columns[port]]
        equal = can_be_equal(columns, self._types)
        if equal is None:
            return self._codes.encode(columns, rows.num_rows)
        codes = np.full(rows.num_rows, NO_KEY)
        some = [column.filter(pa.array(equal)) for column in columns]
        codes[equal] = self._codes.encode(some, int(np.count_nonzero(equal)))
        return codes

    def forget(self, *kept: Codes) -> Codes | None:
        """Give up the numbers of keys of which no tuple is kept, once they are the most.  The
        result has the new number of each old one; None if they stay as they are."""
        size = len(self._codes)
        if size < self._look_again:
            return None
        live = np.zeros(size, np.bool_)
        for codes in kept:
            live[codes[codes != NO_KEY]] = True
        stay = np.flatnonzero(live)
        self._look_again = max(_MANY, 2 * len(stay))
        if 2 * len(stay) >= size:
            return None
        self._codes = self._codes.only(stay)
        places = np.full(size + 1, NO_KEY)  # the last one is for tuples without a key
        places[stay] = np.arange(len(stay))
        return places
