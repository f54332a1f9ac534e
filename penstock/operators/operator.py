"""The protocol between operators and whatever hosts them.

An operator is fed items on numbered ports and yields items.  It never drives itself, sleeps or
reads a clock; a host may call it tuple by tuple or with a million tuples at once, and save its
state between any two calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound, JointPunctuation
from penstock.operators.batch import Batch
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.metrics import Metrics, bytes_of
from penstock.operators.open_results import OpenResults
from penstock.state.chunks import ChunkStore, Tree

Names: TypeAlias = Mapping[str, str] | None
S = TypeVar("S")


@dataclass(slots=True)  # not frozen, like batches
class Progress:
    """A punctuation on all progressing columns at once, by their qualified names: every later tuple
    is at or above its `bounds` (in ticks); the stream has come as far as `high`.  A column that is
    not named has promised nothing; when the stream has `ended`, nothing comes any more.

    `groups` has what has been promised for single groups since the progress before, and `joint`
    what has been promised for pairs of columns: no later tuple is below both.  Whoever makes
    nothing of these leaves them out: results come with the bounds on all tuples then."""

    bounds: Mapping[str, Bound] = field(default_factory=dict)
    high: Mapping[str, Bound] = field(default_factory=dict)
    ended: bool = False
    groups: GroupBounds | None = None
    joint: tuple[JointPunctuation, ...] = ()

    def save(self, origins: Names = None) -> Tree:
        """What is to be loaded by another run has `origins`, by name: there, columns may be called
        something else."""
        bounds, high = by_origin(self.bounds, origins), by_origin(self.high, origins)
        saved: Tree = {"bounds": bounds, "high": high, "ended": self.ended}
        if self.joint:
            named = [by_origin(dict(zip(*each.pair, strict=True)), origins) for each in self.joint]
            saved["joint"] = named
        return saved

    @staticmethod
    def load(saved: Tree, origins: Names = None) -> Progress:
        bounds, high = (by_name(saved[each], origins) for each in ("bounds", "high"))
        pairs = [by_name(each, origins) for each in saved.get("joint", [])]
        # columns that have become one are bounded by themselves
        joint = tuple(JointPunctuation.of(each) for each in pairs if len(each) == 2)
        return Progress(bounds, high, saved["ended"], joint=joint)

    def jointly(self, columns: tuple[str, str], bounds: tuple[Bound, Bound]) -> bool:
        """Whether no later tuple lies below both bounds: because of a promise about the pair, or
        of one about either column."""
        if self.ended or any(
            self.bounds.get(column, BEGINNING) >= bound
            for column, bound in zip(columns, bounds, strict=True)
        ):
            return True
        return any(each.on(columns).completes(bounds) for each in self.joint if each.is_on(columns))


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
    """Whoever is no join or union has one port, 0.  What is given may be very much, and some of it
    be made when it is taken; whoever calls takes all of it before the next call."""

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]: ...

    def on_progress(self, port: int, progress: Progress) -> list[Item]: ...

    def due(self) -> int | None:
        """When time alone has something to say, in microseconds; None: never."""
        ...

    def on_time(self, now: int) -> list[Item]:
        """It is so late.  Before `due`, nothing happens."""
        ...

    def metrics(self) -> Metrics:
        """What is held; how much comes and goes, and how long that takes, is measured around it."""
        ...

    def rows_held(self) -> int:
        """How many tuples are kept as they came."""
        ...

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


class Base(ABC):
    """What most operators answer: time alone says nothing, and no tuple is kept as it came."""

    def due(self) -> int | None:
        return None

    def on_time(self, now: int) -> list[Item]:  # noqa: ARG002
        return []

    def metrics(self) -> Metrics:
        return Metrics(self.rows_held(), bytes_of(vars(self)), self.open_results().count)

    def rows_held(self) -> int:
        """How many tuples are kept as they came."""
        return 0

    @abstractmethod
    def open_results(self) -> OpenResults: ...


@runtime_checkable
class TakesPartials(Protocol):
    """An operator of which a port is pre-aggregated: it takes partial results, too."""

    def promised_by(self, bounds: Mapping[str, Ints]) -> Ints | None:
        """What many bounds, of different tuples, promise about the windowing attribute, if they
        do."""
        ...

    def on_partials(self, saved: Tree, bounds_of: Callable[[Ints], Ints]) -> int:
        """Take in what somebody else folded before anything was known about lateness; `bounds_of`
        says which bound on the attribute held before the tuples of each sub-source.  The result
        is how many tuples missed windows."""
        ...


@runtime_checkable
class Movable(Operator, Protocol[S]):
    """An operator that others can stand for: they have the same answer, and exchange their state in
    a form that names none of them.  So a plan can be changed between any two calls."""

    def export(self) -> S:
        """What another one needs in order to go on; this one could go on as well."""
        ...

    def adopt(self, state: S) -> None:
        """Go on from what another one exported, in an operator that has seen nothing yet.  The same
        rows and late tuples follow, and no promise is taken back; when results leave ahead of the
        stream's progress, or behind it, is a matter of each operator."""
        ...
