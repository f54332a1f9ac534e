"""Rows of a source that are not data: punctuations, told apart from tuples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.model.arrays import Ints, Mask
from penstock.model.schema import Schema
from penstock.model.types import Type
from penstock.operators.ticks import to_ticks
from penstock.plan.streams import PunctuationRows
from penstock.promises.by_sub_source import NOTHING
from penstock.windows.columns import extremes


@dataclass(slots=True)  # not frozen, like batches
class SourceRows:
    """Rows with the progressing attribute of each; `punctuates` says which are punctuations, and
    `promised` what those promise.  Both are None where the stream has none."""

    batch: pa.RecordBatch
    attribute: pa.Array
    punctuates: Mask | None = None
    promised: pa.Array | None = None
    _ticks: Ints | None = None  # once they have been asked for
    _extremes: tuple[int, int] | None = None

    def __len__(self) -> int:
        rows: int = self.batch.num_rows
        return rows

    def only(self, kept: Mask) -> SourceRows:
        taken = pa.array(kept)
        return SourceRows(
            self.batch.filter(taken),
            self.attribute.filter(taken),
            self.punctuates[kept] if self.punctuates is not None else None,
            self.promised.filter(taken) if self.promised is not None else None,
        )

    def tuples(self) -> SourceRows:
        """Without punctuations."""
        if self.punctuates is None:
            return self
        left = self.only(~self.punctuates) if self.punctuates.any() else self
        return SourceRows(left.batch, left.attribute)

    def stamped(self, stamps: list[int]) -> None:
        """These are their ticks, so nobody has to look for them in the columns."""
        self._extremes = min(stamps), max(stamps)

    def ticks(self, sql_type: Type) -> Ints:
        """Of the attribute; NOTHING for punctuations."""
        if self.punctuates is None:
            if self._ticks is None:
                self._ticks = to_ticks(self.attribute, sql_type)
            return self._ticks
        ticks = np.full(len(self), NOTHING)
        ticks[~self.punctuates] = to_ticks(
            self.attribute.filter(pa.array(~self.punctuates)), sql_type
        )
        return ticks

    def extremes(self, sql_type: Type) -> tuple[int, int]:
        """The lowest and the highest of these ticks."""
        if self._extremes is None:
            self._extremes = extremes(self.ticks(sql_type))
        return self._extremes

    def said(self, sql_type: Type) -> Ints:
        """What the punctuations promise, in their order."""
        if self.punctuates is None or self.promised is None:
            return np.zeros(0, np.int64)
        return to_ticks(self.promised.filter(pa.array(self.punctuates)), sql_type)


class Punctuations:
    """Finds them by the predicate of the stream, if it has one."""

    def __init__(self, rows: PunctuationRows | None, schema: Schema) -> None:
        self._when = compile_predicate(rows.when, schema) if rows is not None else None
        self._bound = compile_expression(rows.bound, schema) if rows is not None else None

    def told_apart(self, batch: pa.RecordBatch, attribute: pa.Array) -> SourceRows:
        if self._when is None or self._bound is None:
            return SourceRows(batch, attribute)
        return SourceRows(batch, attribute, np.asarray(self._when(batch)), self._bound(batch))
