"""Tuples on their way into a join: as they came, with what joins need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.batch import Signs
from penstock.operators.joins.partners.gathering import gathered_rows

Beside = TypeVar("Beside", Ints, Mask)


@dataclass(frozen=True, slots=True)
class Tuples:
    """Rows with the code of their key and the tick of their time; with signs, if some take others
    back, and then with their lineage; and where tuples are given out alone if they find no partner,
    which are done with: they have found one, or been given out."""

    rows: pa.RecordBatch
    codes: Codes
    ticks: Ints
    signs: Signs | None = None
    lineage: Ints | None = None
    done: Mask | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, which: Ints) -> Tuples:
        return Tuples(
            gathered_rows(self.rows, which),
            self.codes[which],
            self.ticks[which],
            None if self.signs is None else self.signs[which],
            None if self.lineage is None else self.lineage[which],
            None if self.done is None else self.done[which],
        )

    def only(self, which: Mask | None) -> Tuples:
        """Those of a mask; None stands for all."""
        return self if which is None or which.all() else self.take(np.flatnonzero(which))

    def with_done(self, done: Mask) -> Tuples:
        return replace(self, done=done)

    @staticmethod
    def joined(several: Sequence[Tuples]) -> Tuples:
        if len(several) == 1:
            return several[0]
        return Tuples(
            pa.concat_batches([each.rows for each in several]),
            np.concatenate([each.codes for each in several]),
            np.concatenate([each.ticks for each in several]),
            joined_signs([(each.signs, len(each)) for each in several]),
            joined_if_any([each.lineage for each in several]),
            joined_if_any([each.done for each in several]),
        )


def joined_signs(several: Sequence[tuple[Signs | None, int]]) -> Signs | None:
    """Signs of tuples one after the other, of each of which it is said how many they are."""
    if all(signs is None for signs, _ in several):
        return None
    return np.concatenate([all_positive(size) if s is None else s for s, size in several])


def joined_if_any(several: Sequence[Beside | None]) -> Beside | None:
    """What all of them have beside their rows, or none."""
    known = [each for each in several if each is not None]
    return np.concatenate(known) if known else None


def all_positive(size: int) -> Signs:
    return np.ones(size, np.int8)
