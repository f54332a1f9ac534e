"""A check around every operator of every run: what it promised is never broken by what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernel.aggregates.sums import halves
from penstock.kernel.batch import Batch
from penstock.kernel.operator import Item, Measured, Progress
from penstock.model.punctuation import BEGINNING, Bound


class Kept:
    """What an operator has promised so far."""

    def __init__(self) -> None:
        self.told = Progress()

    def see(self, item: Item) -> None:
        if isinstance(item, Progress):
            for name, bound in self.told.bounds.items():
                moved = item.bounds.get(name, BEGINNING)
                assert item.ended or moved >= bound, f"{name} goes back from {bound} to {moved}"
            self.told = item
        elif isinstance(item, Batch) and item.num_rows:
            assert not self.told.ended, "rows after the end"
            for name, bound in self.told.bounds.items():
                self._above(item, name, bound)
            for each in self.told.joint:
                columns, bounds = each.pair
                below = [self._below(item, *pair) for pair in zip(columns, bounds, strict=True)]
                assert not (below[0] & below[1]).any(), f"a row below both of {each}"

    def _above(self, batch: Batch, name: str, bound: Bound) -> None:
        if name in batch.rows.schema.names:
            assert not self._below(batch, name, bound).any(), f"{name} below {bound}"

    def _below(self, batch: Batch, name: str, bound: Bound) -> npt.NDArray[np.bool_]:
        """Rows below a bound; those that broke the promise of their source say so."""
        below = ticks(batch.rows.column(batch.rows.schema.get_field_index(name))) < bound
        if batch.broken is not None and name in batch.broken:
            below &= ~np.asarray(batch.broken[name].is_valid())
        return np.asarray(below)


def ticks(column: pa.Array) -> npt.NDArray[np.int64]:
    assert column.null_count == 0, "a column that progresses has no NULLs"
    if pa.types.is_decimal(column.type):
        return halves(column)[0].astype(np.int64)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()))


def check_all_operators() -> None:
    """From now on, whatever operators give to their hosts is looked at first."""
    kept: WeakKeyDictionary[Measured, Kept] = WeakKeyDictionary()

    def checked(method: Callable[..., Iterable[Item]]) -> Callable[..., Iterable[Item]]:
        @wraps(method)
        def call(self: Measured, *given: Any) -> Iterable[Item]:
            made = method(self, *given)
            own = kept.setdefault(self, Kept())
            if not isinstance(made, list):
                return seen(made, own)
            for item in made:
                own.see(item)
            return made

        return call

    for name in ("on_batch", "on_progress", "on_time"):
        setattr(Measured, name, checked(getattr(Measured, name)))


def seen(items: Iterable[Item], own: Kept) -> Iterator[Item]:
    """Those that are made when they are taken."""
    for item in items:
        own.see(item)
        yield item
