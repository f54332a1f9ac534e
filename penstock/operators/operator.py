"""The protocol between operators and whatever hosts them.

An operator is fed items on numbered ports and yields items.  It never drives itself, sleeps or
reads a clock; a host may call it tuple by tuple or with a million tuples at once, and save its
state between any two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, Protocol, TypeAlias

import pyarrow as pa

from penstock.model.punctuation import Bound
from penstock.operators.batch import Batch
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.open_results import OpenResults
from penstock.state.chunks import ChunkStore, Tree

Names: TypeAlias = Mapping[str, str] | None


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

    def save(self, origins: Names = None) -> Tree:
        """What is to be loaded by another run has `origins`, by name: there, columns may be called
        something else."""
        bounds, high = by_origin(self.bounds, origins), by_origin(self.high, origins)
        return {"bounds": bounds, "high": high, "ended": self.ended}

    @staticmethod
    def load(saved: Tree, origins: Names = None) -> Progress:
        bounds, high = (by_name(saved[each], origins) for each in ("bounds", "high"))
        return Progress(bounds, high, saved["ended"])


def by_origin(bounds: Mapping[str, Bound], origins: Names) -> dict[str, Bound]:
    if origins is None:
        return dict(bounds)
    return {origins.get(name, name): bound for name, bound in bounds.items()}


def by_name(saved: Mapping[str, Bound], origins: Names) -> dict[str, Bound]:
    """What comes from one column has one bound, under however many names."""
    if origins is None:
        return dict(saved)
    return {name: saved[origin] for name, origin in origins.items() if origin in saved}


@dataclass(frozen=True, slots=True)
class LateRows:
    """Tuples that missed windows, with the bound they broke and the windows they missed."""

    batch: pa.RecordBatch


Item: TypeAlias = Batch | Progress | LateRows


P = ParamSpec("P")


def at_once(method: Callable[P, Iterator[Item]]) -> Callable[P, list[Item]]:
    """Let a method that yields items do all of its work when it is called, not when somebody looks
    at what it yields."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> list[Item]:
        return list(method(*args, **kwargs))

    return call


class Operator(Protocol):
    def on_batch(self, port: int, batch: Batch) -> list[Item]: ...

    def on_progress(self, port: int, progress: Progress) -> list[Item]: ...

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
