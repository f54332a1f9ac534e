"""The protocol between operators and hosts: operators, the progress that they are told, what they
hold and have open, and counters around them.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.progress.group_bounds import GroupBounds
from penstock.kernel.state import ChunkStore, Tree
from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation


@dataclass(frozen=True, slots=True)
class OpenResults:
    """Results that an operator has begun and not emitted yet: windows as spans of their numbers
    (the first, and the one after the last), and a count of results without a number.

    Buckets are united in this form: a window that is open in several buckets is one window, because
    windows have numbers; groups, and partitions of row windows, are each in one bucket only.
    """

    spans: tuple[tuple[int, int], ...] = ()
    others: int = 0

    @property
    def count(self) -> int:
        return sum(stop - first for first, stop in self.spans) + self.others

    def __or__(self, other: OpenResults) -> OpenResults:
        """
        >>> (OpenResults(((1, 4),), 2) | OpenResults(((3, 6), (8, 9)))).count
        8
        """
        return OpenResults(_united((*self.spans, *other.spans)), self.others + other.others)

    def save(self) -> Tree:
        return [[list(span) for span in self.spans], self.others]

    @staticmethod
    def load(saved: Tree) -> OpenResults:
        spans, others = saved
        return OpenResults(tuple((first, stop) for first, stop in spans), others)


NOTHING_OPEN = OpenResults()


def open_windows(numbers: Iterable[int]) -> OpenResults:
    """Single windows.

    >>> open_windows([4, 2, 3, 9]).spans
    ((2, 5), (9, 10))
    """
    return OpenResults(_united((number, number + 1) for number in numbers))


def open_spans(*spans: tuple[int, int] | None) -> OpenResults:
    """Windows from one to another; spans without windows, and None, are left out."""
    return OpenResults(_united(span for span in spans if span is not None and span[0] < span[1]))


def _united(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    united: list[tuple[int, int]] = []
    for first, stop in sorted(spans):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(stop, united[-1][1]))
        else:
            united.append((first, stop))
    return tuple(united)


# Metrics of an operator: tuples that it keeps, bytes of state, and open results.

_LONG = 64
_PLAIN = (str, int, float, bytes)
_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sizes of an operator's state: `rows` are tuples that are kept as they arrived, `open` the
    windows or groups that have been begun and not been emitted; `counters` are further counts, by
    name."""

    rows: int = 0
    bytes: int = 0
    open: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)


def bytes_of(state: Any) -> int:
    """The arrays and tables that an operator holds, wherever they are in it.  Objects of a few
    bytes are not counted, and what belongs to its configuration (plans, types) neither.

    >>> bytes_of(np.zeros(3)), bytes_of([np.zeros(1000)]) >= 8000
    (24, True)
    """
    seen: set[int] = set()
    found, waiting = 0, [state]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or each is None or isinstance(each, _PLAIN):
            continue
        seen.add(id(each))
        if isinstance(each, _ARRAYS):
            found += each.nbytes
        elif isinstance(each, dict):
            found += sys.getsizeof(each)
            waiting += _holding_arrays(each.values())
        elif isinstance(each, list | tuple | set | frozenset):
            found += sys.getsizeof(each)
            waiting += _holding_arrays(each)
        else:
            waiting += _parts(each)
    return found


def _holding_arrays(several: Collection[Any]) -> Collection[Any]:
    """The collection, or an empty one if it has plain values only, which may be very many."""
    plain = len(several) > _LONG and isinstance(next(iter(several)), _PLAIN)
    return () if plain else several


def _parts(each: Any) -> list[Any]:
    module = type(each).__module__
    if not module.startswith(("penstock.kernel", "collections")):
        return []
    if is_dataclass(each):
        return [getattr(each, part.name) for part in fields(each)]
    if isinstance(each, type) or callable(each):
        return []
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    own = [getattr(each, name) for name in slots if hasattr(each, name)]
    own += getattr(each, "__dict__", {}).values()
    return own + (list(each) if module.startswith("collections") else [])


# The protocol between operators and hosts.
#
# An operator is fed items on numbered ports and yields items.  It never drives itself, sleeps or
# reads a clock; a host may call it tuple by tuple or with a million tuples at once, and save its
# state between any two calls.

Names: TypeAlias = Mapping[str, str] | None
S = TypeVar("S")


@dataclass(slots=True)  # not frozen, like batches
class Progress:
    """A punctuation on all progressing columns at once, by their qualified names: every later tuple
    is at or above its `bounds` (in ticks); `high` is the highest tick of each column so far.  A
    column without an entry has no bound; when the stream has `ended`, no item follows.

    `groups` has the bounds of single groups that have risen since the progress before, and `joint`
    the bounds on pairs of columns: no later tuple is below both.  Operators that cannot use these
    leave them out: results then come with the bounds on all tuples.
    """

    bounds: Mapping[str, Bound] = field(default_factory=dict)
    high: Mapping[str, Bound] = field(default_factory=dict)
    ended: bool = False
    groups: GroupBounds | None = None
    joint: tuple[JointPunctuation, ...] = ()

    def save(self, origins: Names = None) -> Tree:
        """Save by `origins` of columns where another run is to load it, because columns may have
        other names there."""
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
        """Whether no later tuple lies below both bounds: because of a joint bound on the pair, or
        of one on either column."""
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
    """Bounds by name from bounds by origin: all names of one column get its bound."""
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
    """Make a method that yields items do all of its work when it is called, not when its result is
    iterated."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> list[Item]:
        return list(method(*args, **kwargs))

    return call


class Operator(Protocol):
    """A columnar operator with explicit state, as hosts call it.

    Unary operators have one port, 0; joins and unions have a port per input.  A result may be
    large, and parts of it may be computed while it is iterated: the caller takes all items before
    the next call.
    """

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]: ...

    def on_progress(self, port: int, progress: Progress) -> list[Item]: ...

    def due(self) -> int | None:
        """Next wake-up time in microseconds, or None."""
        ...

    def on_time(self, now: int) -> list[Item]:
        """Handle that the clock has reached `now`; a no-op before `due`."""
        ...

    def metrics(self) -> Metrics:
        """Sizes of the state; rates and times are measured around the operator (see `Measured`)."""
        ...

    def rows_held(self) -> int:
        """Number of tuples that are kept as they arrived."""
        ...

    def open_results(self) -> OpenResults:
        """Results that have been begun and not been emitted yet."""
        ...

    def save(self, store: ChunkStore) -> None:
        """Bring the chunks of a store up to date: write what has changed, drop what is gone."""
        ...

    def load(self, store: ChunkStore) -> None:
        """Restore from a snapshot, in an operator that has seen nothing yet; an empty store is the
        beginning."""
        ...


class Base(ABC):
    """Defaults for most operators: no wake-up time, and no tuple is kept as it arrived."""

    def due(self) -> int | None:
        return None

    def on_time(self, now: int) -> list[Item]:  # noqa: ARG002
        return []

    def metrics(self) -> Metrics:
        return Metrics(self.rows_held(), bytes_of(vars(self)), self.open_results().count)

    def rows_held(self) -> int:
        """Number of tuples that are kept as they arrived."""
        return 0

    @abstractmethod
    def open_results(self) -> OpenResults: ...


@runtime_checkable
class TakesPartials(Protocol):
    """An operator of which a port is pre-aggregated: it takes partial results, too."""

    def promised_by(self, bounds: Mapping[str, Ints]) -> Ints | None:
        """Bounds on the windowing attribute that follow from many bounds, of different tuples; None
        if none follows."""
        ...

    def on_partials(self, saved: Tree, bounds_of: Callable[[Ints], Ints]) -> int:
        """Merge partial results that were folded elsewhere, before lateness was known; `bounds_of`
        tells the bound on the attribute that held before the tuples of each sub-source.  Return the
        number of tuples that missed windows."""
        ...


@runtime_checkable
class Movable(Operator, Protocol[S]):
    """An operator that others can stand for: they have the same answer, and exchange their state in
    a form that names none of them.  So a plan can be changed between any two calls."""

    def export(self) -> S:
        """Export the state that another operator needs in order to continue; this one could
        continue as well."""
        ...

    def adopt(self, state: S) -> None:
        """Continue from the state that another operator exported, in an operator that has seen
        nothing yet.  The same rows and late tuples follow, and no bound moves back; when results
        leave ahead of the stream's progress, or behind it, is a matter of each operator."""
        ...


# Strides: how far progress has to come before an operator can make use of it.


class Stride(NamedTuple):
    """Steps of progress that an operator can make use of: from one multiple of a length to the
    next, counted from an origin, in a column.

    >>> stride = Stride("s.t", origin=0, every=10)
    >>> [stride.passed(Progress({"s.t": bound})) for bound in (3, 19, 20)]
    [0, 1, 2]
    """

    column: str  # by its qualified name
    origin: int
    every: int

    def passed(self, progress: Progress) -> Bound:
        """Number of the multiple that the bound has passed; equal numbers mean that the operator
        has nothing new to do."""
        bound = progress.bounds.get(self.column, BEGINNING)
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.origin) // self.every


# Counters around an operator: rows that come and go, and the time that it takes.


@dataclass(slots=True)
class Traffic:
    """Rows, calls and time of an operator since it was made."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    calls: int = 0
    nanoseconds: int = 0
    waiting: int = 0  # nanoseconds in which rows were held that only progress could release


@dataclass(slots=True)
class PortTraffic:
    """Tuples that came to one port of an operator, the number of their batches, their time, and the
    number of rows that left because of them."""

    rows: int = 0
    batches: int = 0
    nanoseconds: int = 0
    results: int = 0


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """Status of one operator of a run: counters and sizes."""

    name: str
    flow: Traffic
    held: Metrics

    def plus(self, other: OperatorStatus) -> OperatorStatus:
        """Two parts of one operator together; what is open may be open in both."""
        flow = Traffic(
            *(a + b for a, b in zip(astuple(self.flow), astuple(other.flow), strict=True))
        )
        mine, its = self.held, other.held
        most = max(mine.open, its.open)
        counters = {
            name: mine.counters.get(name, 0) + its.counters.get(name, 0)
            for name in (
                *mine.counters,
                *(each for each in its.counters if each not in mine.counters),
            )
        }
        held = Metrics(mine.rows + its.rows, mine.bytes + its.bytes, most, counters)
        return OperatorStatus(self.name, flow, held)

    def save(self) -> Tree:
        return [self.name, list(astuple(self.flow)), list(astuple(self.held))]

    @staticmethod
    def load(saved: Tree) -> OperatorStatus:
        name, flow, held = saved
        return OperatorStatus(name, Traffic(*flow), Metrics(*held))


class Measured:
    """Hosts call operators through this."""

    def __init__(
        self, operator: Operator, name: str, timer: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.operator = operator
        self.name = name
        self.flow = Traffic()
        self.ports: dict[int, PortTraffic] = {}
        self._timer = timer

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        begin = self._timer()
        items = self.operator.on_batch(port, batch)
        took, rows = self._timer() - begin, batch.num_rows
        flow, own = self.flow, self.ports.get(port)
        if own is None:
            own = self.ports[port] = PortTraffic()
        flow.rows_in += rows
        flow.nanoseconds += took
        flow.calls += 1
        own.rows += rows
        own.batches += 1
        own.nanoseconds += took
        if not isinstance(items, list):
            return self._one_by_one(iter(items), own)
        for item in items:  # not called for each: that would be felt where tuples come alone
            if isinstance(item, Batch):
                rows = item.num_rows
                own.results += rows
                flow.rows_out += rows
            elif isinstance(item, LateRows):
                flow.late += item.batch.num_rows
        return items

    def pass_over(self, rows: int) -> None:
        """Count rows that were not for the operator, and were kept from it."""
        self.flow.rows_in += rows
        own = self.ports.get(0)
        if own is None:
            own = self.ports[0] = PortTraffic()
        own.rows += rows

    def _one_by_one(self, items: Iterator[Item], own: PortTraffic) -> Iterator[Item]:
        """Items that are made when they are taken."""
        while True:
            begin = self._timer()
            item = next(items, None)
            took = self._timer() - begin
            self.flow.nanoseconds += took
            own.nanoseconds += took
            if item is None:
                return
            if isinstance(item, Batch):
                own.results += item.num_rows
            self._count(item)
            yield item

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        flow, timer = self.flow, self._timer
        begin = timer()
        items = self.operator.on_progress(port, progress)
        flow.nanoseconds += timer() - begin
        flow.calls += 1
        for item in items:
            if isinstance(item, Batch):
                flow.rows_out += item.num_rows
            elif isinstance(item, LateRows):
                flow.late += item.batch.num_rows
        return items

    def on_time(self, now: int) -> list[Item]:
        flow, timer = self.flow, self._timer
        begin = timer()
        items = self.operator.on_time(now)
        flow.nanoseconds += timer() - begin
        flow.calls += 1
        for item in items:
            self._count(item)
        return items

    def _count(self, item: Item) -> None:
        if isinstance(item, Batch):
            self.flow.rows_out += item.num_rows
        elif isinstance(item, LateRows):
            self.flow.late += item.batch.num_rows

    def status(self) -> OperatorStatus:
        return OperatorStatus(self.name, self.flow, self.operator.metrics())

    def save(self) -> Tree:
        """Save the counters."""
        ports = [[port, *astuple(each)] for port, each in self.ports.items()]
        return {"flow": list(astuple(self.flow)), "ports": ports}

    def load(self, saved: Tree) -> None:
        self.flow = Traffic(*saved["flow"])
        self.ports = {port: PortTraffic(*counts) for port, *counts in saved["ports"]}
