"""The tuples of one input that may still be joined, by some of their keys and in time.

All expressions that look tuples of the input up by the same keys share an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.model.punctuation import Bound
from penstock.model.schema import Schema
from penstock.model.stable_order import stable_order
from penstock.operators.batch import Batch
from penstock.operators.joins.partners.looking_up import find_few, find_many
from penstock.operators.joins.partners.newest import FEW
from penstock.operators.joins.partners.pairs import Found
from penstock.operators.joins.partners.side import Side
from penstock.operators.joins.partners.sorted_run import SortedRun
from penstock.operators.joins.partners.tuples import Tuples
from penstock.operators.joins.shared_codes import HashedCodes, SharedCodes
from penstock.plan.expressions import Expression

Codings: TypeAlias = SharedCodes | HashedCodes


class WindowIndex:
    """`codes` are those of the keys, shared with whoever looks for them."""

    def __init__(self, schema: Schema, keys: Sequence[Expression], codes: Codings) -> None:
        self._keys = [compile_expression(each, schema) for each in keys]
        self.codes = codes
        self.side = Side()

    def __len__(self) -> int:
        return len(self.side)

    def record(self, given: Batch, ticks: Ints) -> None:
        """Tuples whose keys can be equal to others."""
        tuples = self.tuples(given, ticks)
        if len(tuples) <= FEW:
            self.side.add_few(tuples)
        else:
            self.side.add(SortedRun.of(tuples, self.side.places))

    def tuples(self, given: Batch, ticks: Ints) -> Tuples:
        columns = [key(given.rows) for key in self._keys]
        codes, _ = self.codes.of(columns, given.num_rows)
        return Tuples(given.rows, codes, ticks, given.signs, given.lineage)

    def forget(self, limit: Bound) -> None:
        self.side.forget(limit)

    def find(self, codes: Codes, lows: Ints, highs: Ints) -> list[Found]:
        """The tuples with a key, from one time to another that is not below it, for each that asks;
        a few are looked for as they are, many in the order of their keys."""
        if len(codes) <= FEW:
            return find_few(self.side, codes, lows, highs)
        order = stable_order(codes)
        return find_many(self.side, codes[order], lows[order], highs[order], order, all_fit=True)
