"""Tuples of slide-by-tuple windows of which it is not known yet whether a window contains them.

Where every n-th tuple opens a window, some tuples are in none, and that shows only when the next
one of their partition is opened.  Until then they are kept as they are: what is computed from them
need not have a value.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.expressions import Column, Literal
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore
from penstock.windows.columns import exceeds_by_at_most

_Tuples: TypeAlias = tuple[pa.RecordBatch, Ints, Codes]  # with their ticks and partitions


def may_fail(node: WindowAggregate) -> bool:
    """Whether something is computed from tuples, which may have no value for some of them."""
    calls = [each.call for each in node.aggregates]
    looked_at = [key.expression for key in node.keys]
    looked_at += [argument for call in calls for argument in call.arguments]
    filtered = any(call.where is not None for call in calls)
    return filtered or not all(isinstance(each, Column | Literal) for each in looked_at)


class Undecided:
    def __init__(self, length: int) -> None:
        self._range = length
        self._kept: _Tuples | None = None

    def decide(self, given: _Tuples, opens: Mask, bound: Bound) -> _Tuples:
        """Take in all tuples up to a bound, of which some open windows: those are given back, by
        value, that a window contains by now.  What no later window can contain is dropped."""
        _, ticks, parts = given
        ids, of = ticks[opens], parts[opens]
        if self._kept is not None:
            given = _joined(self._kept, given)
        _, ticks, parts = given
        passed, nearest = next_opened(ticks, parts, ids, of)
        contained = passed.copy()
        contained[passed] = exceeds_by_at_most(nearest, ticks[passed], self._range - 1)
        waiting = ~passed
        if bound == END:
            waiting[:] = False
        elif bound != BEGINNING:
            limits = np.full(int(np.count_nonzero(waiting)), int(bound), np.int64)
            waiting[waiting] = exceeds_by_at_most(limits, ticks[waiting], self._range - 1)
        self._kept = _some(given, waiting) if waiting.any() else None
        return _some(given, contained)

    def save(self, store: ChunkStore) -> None:
        if self._kept is None:
            store.drop("undecided")
        else:
            batch, ticks, parts = self._kept
            store.put("undecided", {"batch": batch, "ticks": ticks, "parts": parts})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("undecided")
        if saved is not None:
            self._kept = saved["batch"], saved["ticks"], saved["parts"]


def next_opened(ticks: Ints, parts: Codes, ids: Ints, of: Codes) -> tuple[Mask, Ints]:
    """Which tuples have a window of their partition at or above them, and for those its id.

    >>> ids, of = np.array([5, 9, 3]), np.array([0, 0, 1])
    >>> next_opened(np.array([4, 6, 9, 4, 2]), np.array([0, 0, 0, 1, 1]), ids, of)
    (array([ True,  True,  True, False,  True]), array([5, 9, 9, 3]))
    """
    if len(ids) == 0:
        return np.zeros(len(ticks), np.bool_), np.zeros(0, np.int64)
    different, ranks = np.unique(np.concatenate([ids, ticks]), return_inverse=True)
    width = len(different)
    opened = np.unique(of * width + ranks[: len(ids)])
    at = np.searchsorted(opened, parts * width + ranks[len(ids) :])
    found = opened[np.minimum(at, len(opened) - 1)]
    passed: Mask = (at < len(opened)) & (found // width == parts)
    return passed, different[found[passed] % width]


def _joined(before: _Tuples, given: _Tuples) -> _Tuples:
    batch = before[0].rename_columns(given[0].schema.names)  # saved under the names of another run
    return (
        pa.concat_batches([batch, given[0]]),
        np.concatenate([before[1], given[1]]),
        np.concatenate([before[2], given[2]]),
    )


def _some(tuples: _Tuples, which: Mask) -> _Tuples:
    batch, ticks, parts = tuples
    if which.all():
        return tuples
    return batch.filter(pa.array(which)), ticks[which], parts[which]
