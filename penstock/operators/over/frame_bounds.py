"""Where frames begin and end among sorted rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints, Mask
from penstock.model.types import INT64_MAX, INT64_MIN
from penstock.plan.nodes.over_calls import Excluded, FrameUnit, RowFrame

Stretches: TypeAlias = tuple[Ints, Ints]  # where they begin, and where they end


@dataclass
class RowsInPartitions:
    """Rows sorted by partition and order: `codes` tell partitions apart, and `peers` rows that are
    equal in the order.  `ticks` are of the only key of the order, if frames are measured on it;
    they count where they are `timed` (None: everywhere), the others are NULL, which stand behind
    the rest or before it."""

    rows: pa.RecordBatch
    codes: Ints
    peers: Ints
    ticks: Ints | None = None
    timed: Mask | None = None
    nulls_first: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def _parts(self) -> tuple[Ints, Ints, Ints]:
        return stretches(self.codes)

    @property
    def numbers(self) -> Ints:
        """The partition of each row, numbered in this order."""
        return self._parts[0]

    @property
    def starts(self) -> Ints:
        """Where partitions begin."""
        return self._parts[1]

    @property
    def stops(self) -> Ints:
        return self._parts[2]

    @cached_property
    def _equals(self) -> tuple[Ints, Ints, Ints]:
        return stretches(self.peers)

    @property
    def begin(self) -> Ints:
        """Where the partition of each row begins."""
        return self.starts[self.numbers]

    @property
    def end(self) -> Ints:
        return self.stops[self.numbers]

    @property
    def first_peer(self) -> Ints:
        number, starts, _ = self._equals
        return starts[number]

    @property
    def end_of_peers(self) -> Ints:
        number, _, stops = self._equals
        return stops[number]

    @cached_property
    def _by_tick(self) -> tuple[Ints, Ints]:
        """All different ticks, and a number for every row that rises with partition and tick."""
        assert self.ticks is not None
        different, places = np.unique(self.ticks, return_inverse=True)
        places = places + 1
        if self.timed is not None:
            places = np.where(self.timed, places, 0 if self.nulls_first else len(different) + 1)
        return different, self.numbers * (len(different) + 2) + places

    def held(self, frame: RowFrame, targets: Ints) -> list[Stretches]:
        """What the frames of some rows hold: for each row one stretch of rows, or several of which
        each stands behind the one before it."""
        low, high = self.bounds(frame, targets)
        if not frame.leaves_out:
            return [(low, high)]
        first, last = targets, targets + 1
        if frame.excluded is not Excluded.CURRENT_ROW:
            first, last = self.first_peer[targets], self.end_of_peers[targets]
        first, last = np.clip(first, low, high), np.clip(last, low, high)
        around = [(low, first), (last, high)]
        if frame.excluded is Excluded.TIES:
            around.insert(1, (np.clip(targets, low, high), np.clip(targets + 1, low, high)))
        return around

    def bounds(self, frame: RowFrame, targets: Ints) -> Stretches:
        """The first row of the frames of some rows, and the one after the last, whatever they leave
        out in between."""
        begin, end = self.begin[targets], self.end[targets]
        low = begin if frame.first is None else self._low(frame, targets)
        high = end if frame.last is None else self._high(frame, targets)
        low = np.clip(low, begin, end)
        return low, np.maximum(low, np.clip(high, begin, end))

    def _low(self, frame: RowFrame, targets: Ints) -> Ints:
        assert frame.first is not None
        if frame.unit is FrameUnit.ROWS:
            return moved(targets, frame.first)
        if frame.first == 0:
            return self.first_peer[targets]
        if frame.unit is FrameUnit.GROUPS:
            return self._from_group(frame.first, targets)
        return self._from_tick(frame.first, targets, "left", self.first_peer)

    def _high(self, frame: RowFrame, targets: Ints) -> Ints:
        assert frame.last is not None
        if frame.unit is FrameUnit.ROWS:
            return moved(targets, frame.last + 1)
        if frame.last == 0:
            return self.end_of_peers[targets]
        if frame.unit is FrameUnit.GROUPS:
            return self._from_group(frame.last + 1, targets)
        return self._from_tick(frame.last, targets, "right", self.end_of_peers)

    def _from_group(self, by: int, targets: Ints) -> Ints:
        """The first row of a group that stands so many groups behind that of a row."""
        number, starts, _ = self._equals
        size = len(self)
        groups = number[targets] + max(-size, min(size, by))
        first, last = number[self.begin[targets]], number[self.end[targets] - 1]
        return np.append(starts, size)[np.clip(groups, first, last + 1)]

    def _from_tick(self, by: int, targets: Ints, side: str, of_peers: Ints) -> Ints:
        """The first row that is not below a tick, or above it; of NULLs, where their peers are."""
        assert self.ticks is not None
        different, keys = self._by_tick
        wanted = np.searchsorted(different, moved(self.ticks[targets], by), side=side)  # type: ignore[call-overload]
        keyed = self.numbers[targets] * (len(different) + 2) + wanted + 1
        found: Ints = np.searchsorted(keys, keyed, side="left")
        if self.timed is None:
            return found
        return np.where(self.timed[targets], found, of_peers[targets])


def stretches(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Of neighbours that are equal: the number of their stretch, and where stretches begin and end.

    >>> [each.tolist() for each in stretches(np.array([5, 5, 3]))]
    [[0, 0, 1], [0, 2], [2, 3]]
    """
    differs = np.ones(len(values), np.bool_)
    differs[1:] = values[1:] != values[:-1]
    starts = np.flatnonzero(differs)
    return np.cumsum(differs) - 1, starts, np.append(starts[1:], len(values))


def moved(values: Ints, by: int) -> Ints:
    """Values and a distance, up to the ends of 64 bits."""
    if by < 0:
        return np.maximum(values, INT64_MIN - by) + by
    return np.minimum(values, INT64_MAX - min(by, INT64_MAX)) + min(by, INT64_MAX)
