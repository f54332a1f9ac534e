"""The protocol between operators and whatever hosts them.

An operator is fed items on numbered ports and yields items.  It never drives itself, sleeps or
reads a clock; a host may call it tuple by tuple or with a million tuples at once, and save its
state between any two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock.model.punctuation import Bound
from penstock.operators.chunks import ChunkStore, Tree
from penstock.operators.group_bounds import GroupBounds
from penstock.operators.open_results import OpenResults


@dataclass(frozen=True, slots=True)
class Progress:
    """A punctuation on all progressing columns at once, by their qualified names: every later tuple
    is at or above its `bounds` (in ticks); the stream has come as far as `high`.  A column that is
    not named has promised nothing; when the stream has `ended`, nothing comes any more.

    `groups` has what has been promised for single groups since the progress before.  Whoever makes
    nothing of it leaves it out: results come with the bounds on all tuples then."""

    bounds: Mapping[str, Bound] = field(default_factory=dict)
    high: Mapping[str, Bound] = field(default_factory=dict)
    ended: bool = False
    groups: GroupBounds | None = None

    def save(self) -> Tree:
        return {"bounds": dict(self.bounds), "high": dict(self.high), "ended": self.ended}

    @staticmethod
    def load(saved: Tree) -> Progress:
        return Progress(saved["bounds"], saved["high"], saved["ended"])


@dataclass(frozen=True, slots=True)
class LateRows:
    """Tuples that missed windows, with the bound they broke and the windows they missed."""

    batch: pa.RecordBatch


Item: TypeAlias = pa.RecordBatch | Progress | LateRows


class Operator(Protocol):
    def on_batch(self, port: int, batch: pa.RecordBatch) -> Iterable[Item]: ...

    def on_progress(self, port: int, progress: Progress) -> Iterable[Item]: ...

    def open_results(self) -> OpenResults:
        """What has been begun and not been given out yet."""
        ...

    def save(self, store: ChunkStore) -> None:
        """Bring the chunks of a store up to date: write what has changed, drop what is gone."""
        ...

    def load(self, store: ChunkStore) -> None:
        """Go on from what was saved, in an operator that has seen nothing yet; an empty store is
        the beginning."""
        ...
