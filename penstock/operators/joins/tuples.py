"""Tuples on their way through a join: as they came, with what joins need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.operators.batch import Signs


@dataclass(frozen=True, slots=True)
class Tuples:
    """Rows with the code of their key and the tick of their time; with signs, if some take others
    back; and where tuples are given out alone if they find no partner, which are done with: they
    have found one, or been given out."""

    rows: pa.RecordBatch
    codes: Codes
    ticks: Ints
    signs: Signs | None = None
    done: Mask | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, which: Ints) -> Tuples:
        return Tuples(
            self.rows.take(pa.array(which)),
            self.codes[which],
            self.ticks[which],
            None if self.signs is None else self.signs[which],
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
        signs = done = None
        if any(each.signs is not None for each in several):
            signs = np.concatenate([signs_of(each) for each in several])
        if several[0].done is not None:
            done = np.concatenate([each.done for each in several if each.done is not None])
        return Tuples(
            pa.concat_batches([each.rows for each in several]),
            np.concatenate([each.codes for each in several]),
            np.concatenate([each.ticks for each in several]),
            signs,
            done,
        )


def signs_of(tuples: Tuples) -> Signs:
    return np.ones(len(tuples), np.int8) if tuples.signs is None else tuples.signs
