"""The multi-way join: one operator for any number of inputs, by dataflow expressions.

From the parts to the operator: its inputs and their late tuples, the progress that it can promise,
results in the order of CONSISTENCY, threads, and `MultiwayJoin`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, combinations
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch, Signs
from penstock.kernel.bounds import to_ticks
from penstock.kernel.joins.pairing import JoinState, at_least, can_be_equal, input_lineages
from penstock.kernel.joins.probes import ChosenTuples, Combinations, Dataflow
from penstock.kernel.joins.sorted_run import Tuples
from penstock.kernel.operator import (
    Base,
    Item,
    LateRows,
    OpenResults,
    Progress,
    at_once,
    by_name,
    by_origin,
)
from penstock.kernel.revisions.amendment import in_time_of
from penstock.kernel.state import ChunkStore, Tree, Within
from penstock.model.arrays import Ints, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.ticks import ticks_of
from penstock.model.types import Field
from penstock.plan.algorithms import Consistency
from penstock.plan.expressions import Column
from penstock.plan.identity import origins
from penstock.plan.join_properties import conditions_of, input_of
from penstock.plan.join_windows import JoinWindow
from penstock.plan.nodes.join import Join
from penstock.plan.physical import Asked


class MultiwayInputs:
    """The inputs of a multi-way join: late tuples, times and keys.

    `columns` are the column names of each input.
    """

    def __init__(self, node: Join, asked: Asked | None) -> None:
        timed = list(zip(node.attributes, node.branches, strict=True))
        inputs = zip(node.times, node.branches, strict=True)
        self._in_time = [in_time_of(list(times), each, asked) for times, each in inputs]
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._types = [attribute.type for attribute in node.attributes]
        self.columns: Sequence[list[str]] = [
            [field.qualified for field in each.schema] for each in node.branches
        ]
        keys = [
            [each.of(port) for each in conditions_of(node).equalities if port in each.inputs]
            for port in range(len(node.branches))
        ]
        self._key_types = [[key.type for key in own] for own in keys]
        self._keys = [
            [compile_expression(key, each.schema) for key in own]
            for own, each in zip(keys, node.branches, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._keys)

    def in_time(self, port: int, batch: Batch) -> tuple[Batch, Ints, list[LateRows]]:
        """Split a batch into the tuples that count, with their times, and the late ones."""
        given, ticks, late = self._in_time[port].split_signed(batch)
        return given, ticks[0], late

    def with_keys(self, port: int, given: Batch, ticks: Ints) -> tuple[Batch, Ints]:
        """Keep the tuples that can be in a result: those without NULL or NaN in a key."""
        columns = [key(given.rows) for key in self._keys[port]]
        equal = can_be_equal(columns, self._key_types[port])
        if equal is None:
            return given, ticks
        return given.filter(pa.array(equal)), ticks[equal]

    def final(self, port: int, progress: Progress) -> list[Bound]:
        """Bounds on the times of an input below which it is complete."""
        return self._in_time[port].final(progress)

    def ticks(self, port: int, rows: pa.RecordBatch) -> Ints:
        return to_ticks(rows.column(self._places[port]), self._types[port])

    def named(self, port: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rename the columns of saved rows: they are the same, but their names may have changed
        since.
        """
        return rows.rename_columns(self.columns[port])


# Bounds on the inputs of a multi-way join: which tuples may still be in a result, and the bounds
# and joint punctuations on results.


@dataclass(frozen=True, slots=True)
class TimedPair:
    """Time columns of two inputs, the inputs given by number, that a window relates."""

    inputs: tuple[int, int]
    names: tuple[str, str]
    window: JoinWindow

    def limit(self, side: int, bound: Bound) -> Bound:
        """The lowest time of one side that fits a time at or above the bound of the other."""
        if bound in (BEGINNING, END):
            return bound
        if side == 0:
            return self.window.partner_bounds_of_right(int(bound))[0]
        return self.window.partner_bounds(int(bound))[0]


class MultiwayProgress:
    """Bounds of all inputs, and the bounds on results that follow from them.

    A later result has a later tuple of one input. So each of its times is at or above the bound on
    that column, or as far from the bound on a column of another input as their window allows.
    """

    def __init__(self, join: Join) -> None:
        self._own = [_name(attribute) for attribute in join.attributes]
        self._times = [[_name(each) for each in times] for times in join.times]
        self._timed = list(_times(join))
        self._attributes = self._timed[: len(self._timed) - len(join.also)]
        self.bounds: list[dict[str, Bound]] = [{name: BEGINNING} for name in self._own]
        for each in self._timed:
            for number, name in zip(each.inputs, each.names, strict=True):
                self.bounds[number].setdefault(name, BEGINNING)
        self._types = {each.field.qualified: each.field.type for each in join.progress}

    def advance(self, port: int, progress: Progress, final: Sequence[Bound]) -> bool:
        """Raise the bounds of a port; return whether any has changed. `final` are the bounds on
        the times by which tuples of the port are late, the attribute first; bounds on other
        columns are in the progress.
        """
        bounds, news = self.bounds[port], False
        own = dict(zip(self._times[port], final, strict=True))
        for name, before in bounds.items():
            bound = own.get(name, END if progress.ended else progress.bounds.get(name, BEGINNING))
            if bound > before:
                bounds[name], news = bound, True
        return news

    def bound(self, port: int) -> Bound:
        """Bound on the attribute of a port."""
        return self.bounds[port][self._own[port]]

    def limit(self, port: int) -> Bound:
        """Limit below which tuples of a port are in no later result: some other input can have no
        later tuple that fits.
        """
        lowest: Bound = END
        for each in self._attributes:
            if port in each.inputs:
                side = each.inputs.index(port)
                lowest = min(lowest, each.limit(side, self.bound(each.inputs[1 - side])))
        return lowest

    @property
    def ended(self) -> bool:
        return all(self.bound(port) == END for port in range(len(self._own)))

    def promise(self) -> Progress:
        if self.ended:
            return Progress(ended=True)
        bounds: dict[str, Bound] = {}
        for port, names in enumerate(self.bounds):
            for name in names:
                if name in self._types:
                    promised, room = self._lowest(port, name), ticks_of(self._types[name])
                    if promised >= room.low:
                        bounds[name] = min(promised, room.high)
        return Progress(bounds, joint=tuple(self._jointly()))

    def _lowest(self, port: int, name: str, without: int | None = None) -> Bound:
        """The lowest value of a time column in a later result, given that the later tuple is of
        any input but `without`.
        """
        lowest = self.bounds[port][name]
        for other in range(len(self._own)):
            if other not in (port, without):
                lowest = min(lowest, self._lowest_with(port, name, other))
        return lowest

    def _lowest_with(self, port: int, name: str, other: int) -> Bound:
        """The lowest value of a time column in a later result, given that the later tuple is of
        input `other`: the highest of all lower bounds that the windows imply.
        """
        found: Bound = BEGINNING
        for each in self._timed:
            for side in (0, 1):
                own = each.inputs[side] == port and each.names[side] == name
                if own and each.inputs[1 - side] == other:
                    bound = self.bounds[other][each.names[1 - side]]
                    found = max(found, each.limit(side, bound))
        return found

    def _jointly(self) -> Iterator[JointPunctuation]:
        """Joint punctuations: no later result is below both bounds. One with a later tuple of the
        second input is not below the second, any other not below the first. If the bounds are too
        far apart to fit, those on single columns say as much.
        """
        for each in self._timed:
            if not self._types.keys() >= set(each.names):
                continue
            for first in (0, 1):
                one, other = each.inputs[first], each.inputs[1 - first]
                names = each.names[first], each.names[1 - first]
                low = self._lowest(one, names[0], without=other)
                high = self.bounds[other][names[1]]
                if {BEGINNING, END} & {low, high}:
                    continue
                ticks = int(low), int(high)
                if each.window.matches(*(ticks if first == 0 else ticks[::-1])):
                    yield JointPunctuation(names, (low, high))

    def given(
        self, high: Mapping[str, Bound], columns: Sequence[list[str]]
    ) -> tuple[Progress, ...]:
        """Progress of each input, from which another operator can resume; `columns` are the column
        names of each input, `high` their highest values so far.
        """
        return tuple(
            Progress(
                {} if ended else {name: b for name, b in bounds.items() if b != BEGINNING},
                {name: bound for name, bound in high.items() if name in own},
                ended=ended,
            )
            for port, (bounds, own) in enumerate(zip(self.bounds, columns, strict=True))
            for ended in [self.bound(port) == END]
        )

    # --- state -----------------------------------------------------------------------------------

    def save(self) -> Tree:
        """Save the bounds by position: columns may be renamed later."""
        return [list(each.values()) for each in self.bounds]

    def load(self, saved: Tree) -> None:
        for own, bounds in zip(self.bounds, saved, strict=True):
            own.update(zip(own, bounds, strict=True))


def _times(join: Join) -> Iterator[TimedPair]:
    """Time conditions: those of all pairs of attributes, then those on further columns."""
    for left, right in combinations(range(len(join.branches)), 2):
        window = join.window.between(left, right)
        assert window is not None, "all inputs are bounded by each other"
        names = _name(join.attributes[left]), _name(join.attributes[right])
        yield TimedPair((left, right), names, window)
    schemas = [branch.schema for branch in join.branches]
    for each in join.also:
        one, other = (input_of(column, schemas) for column in (each.left, each.right))
        assert one is not None
        assert other is not None
        yield TimedPair((one, other), (_name(each.left), _name(each.right)), each.window)


def _name(column: Column) -> str:
    return Field(column.name, column.type, column.relation).qualified


# Results in the order of the tuples that found them: CONSISTENCY.

_FEW = 16  # levels up to which results are sorted by single tuples


def in_step(found: Sequence[tuple[Batch, Ints]], at_most: int | None) -> list[Batch]:
    """Put results into the order that a level of consistency asks for."""
    batches = [batch for batch, _ in found]
    if at_most is None or not found:
        return batches
    by = np.concatenate([items for _, items in found])
    steps = by if at_most <= _FEW else _stretches(by, at_most)
    if (steps[1:] >= steps[:-1]).all():
        return batches
    return [Batch.joined(batches).take(stable_order(steps))]


def _stretches(by: Ints, at_most: int) -> Ints:
    """Number the stretches of tuples; each ends with the tuple that makes it `at_most` results or
    more.

    >>> _stretches(np.array([4, 0, 0, 2, 1, 3]), 2)
    array([2, 0, 0, 1, 1, 2])
    """
    upto = np.cumsum(np.bincount(by))
    ends, before = [], 0
    while before + at_most <= upto[-1]:
        ends.append(int(upto.searchsorted(before + at_most)))
        before = int(upto[ends[-1]])
    return np.searchsorted(np.array(ends, np.int64), by)


# Threads for independent expressions: Arrow and NumPy release Python's lock while they work on
# columns.

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="penstock-expression")


def side_by_side(work: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """Apply `work` to the parts in threads and yield the results in order. Only a few more parts
    are in progress than the caller has consumed.
    """
    running: deque[Future[R]] = deque()
    try:
        for part in parts:
            running.append(_pool().submit(work, part))
            if len(running) > cores():
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for each in running:
            each.cancel()


# The operator: every input has a dataflow expression, the order in which its tuples probe the
# recorders of the other inputs.  Intermediate results are not kept.
#
# A tuple is joined with those that came before it, and recorded for those that come after it: so
# every result is found once, by the last of its tuples, whatever the order of arrival and however
# batches are cut.

_MANY = 1 << 18  # results that are more than is held in memory at once
_SMALL, _PART = 1 << 11, 1 << 14  # tuples of a task for a thread: at least, and at most


class MultiwayJoin(Base):
    """Join of any number of inputs by dataflow expressions.

    With LATE AMEND, late tuples count, so everything becomes final so much later; nothing is
    retracted. Where a `consistency` is asked for, the tuples of a batch probe in parallel, in
    threads: all of them read the state from before the batch.
    """

    def __init__(
        self, node: Join, asked: Asked | None = None, consistency: Consistency | None = None
    ) -> None:
        self._consistency = consistency
        self._inputs = MultiwayInputs(node, asked)
        self._dataflow = Dataflow(node)
        self._indexes = self._dataflow.indexes
        self._schema = node.schema.arrow
        self._names = set(self._schema.names)
        self._origins = origins(node)
        self._lineages = input_lineages(node)
        self._progress = MultiwayProgress(node)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        self._adopted = Progress()  # what another operator has promised before this one

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        """Join the tuples; if there are very many results, they are produced piece by piece, as
        the caller iterates.
        """
        given, ticks, late = self._inputs.in_time(port, batch)
        items: list[Item] = [*late]
        if self._lineages:
            given = Batch(given.rows, given.signs, lineage=self._lineages[port].of(given))
        given, times = self._inputs.with_keys(port, given, ticks)
        if not given.num_rows:
            return items
        self._record(port, given, times)
        results, made = self._results(port, given), 0
        for each in results:
            items.append(each)
            made += each.num_rows
            if made > _MANY:
                return chain(items, results)
        return items

    def _results(self, port: int, given: Batch) -> Iterator[Batch]:
        come = ChosenTuples.all_of(given)
        if self._consistency is None:
            everything = Combinations({port: come}, given.num_rows)
            yield from map(self._output_batch, self._dataflow.run(port, everything))
            return
        at_most, numbers = self._consistency.at_most, np.arange(given.num_rows)

        def found_by(items: Ints) -> list[Batch]:
            some = Combinations({port: come.take(items)}, len(items))
            found = self._dataflow.run(port, some)
            return in_step(
                [(self._output_batch(each), each.chosen[port].rows) for each in found], at_most
            )

        size = min(_PART, max(_SMALL, -(-given.num_rows // cores())))
        parts = [numbers[begin : begin + size] for begin in range(0, given.num_rows, size)]
        if len(parts) == 1:
            yield from found_by(numbers)
            return
        self._dataflow.settle()
        for found in side_by_side(found_by, parts):
            yield from found

    def _record(self, port: int, given: Batch, ticks: Ints) -> None:
        """Record the tuples that may be in a result with later ones. Tuples never probe their own
        input, so recording them before they probe does no harm.
        """
        limit = self._progress.limit(port)
        if limit != BEGINNING:
            stays = np.flatnonzero(ticks >= limit)
            if len(stays) < len(ticks):
                given, ticks = given.take(stays), ticks[stays]
        if given.num_rows:
            for index in self._indexes[port]:
                index.record(given, ticks)

    def _output_batch(self, found: Combinations) -> Batch:
        """Assemble result rows: the columns of all inputs in their order, independent of which
        tuple came last; the sign is the product of all signs.
        """
        chosen = [found.chosen[port] for port in range(len(self._indexes))]
        columns = [column for each in chosen for column in each.columns()]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if not self._lineages:
            return Batch(rows)
        signs: Signs | None = None
        for own in (each.signs() for each in chosen):
            signs = own if signs is None else signs if own is None else signs * own
        parts = [part for part in (each.lineage() for each in chosen) if part is not None]
        return Batch(rows, signs, lineage=np.hstack(parts))

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._high |= {k: v for k, v in progress.high.items() if k in self._names}
        if not self._progress.advance(port, progress, self._inputs.final(port, progress)):
            return
        for other, indexes in enumerate(self._indexes):
            if other != port:
                limit = self._progress.limit(other)
                for index in indexes:
                    index.forget(limit)
        self._dataflow.forget_keys()
        promised = at_least(self._progress.promise(), self._adopted)
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, dict(self._high), promised.ended, joint=promised.joint)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(len(indexes[0]) for indexes in self._indexes)

    def open_results(self) -> OpenResults:
        return OpenResults()

    def save(self, store: ChunkStore) -> None:
        """Save the tuples of each input once; all indexes follow from them."""
        for port, indexes in enumerate(self._indexes):
            indexes[0].side.save(Within(store, f"{port}/"))
        high = by_origin(self._high, self._origins)
        numbered = [each.came for each in self._lineages]
        store.put("run", {"bounds": self._progress.save(), "high": high, "numbered": numbered})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._progress.load(saved["bounds"])
        self._high = by_name(saved["high"], self._origins)
        self._promised = self._progress.promise()
        for lineage, came in zip(self._lineages, saved["numbered"], strict=True):
            lineage.came = came
        for port, (first, *others) in enumerate(self._indexes):
            first.side.load(Within(store, f"{port}/"), partial(self._tuples, port))
            for batch in first.side.batches():
                for index in others:
                    index.record(batch, self._inputs.ticks(port, batch.rows))

    def kept(self, port: int) -> Iterator[pa.RecordBatch]:
        """Tuples of an input that may be in a later result."""
        return self._indexes[port][0].side.rows()

    def export(self) -> JoinState:
        """State for a join with other dataflow expressions."""
        kept = tuple(tuple(self.kept(port)) for port in range(len(self._indexes)))
        given = self._progress.given(self._high, self._inputs.columns)
        return JoinState(kept, tuple(() for _ in kept), (), given, self._promised)

    def adopt(self, state: JoinState) -> None:
        for port, several in enumerate(state.kept):
            for rows in several:
                self._record(port, Batch(rows), self._inputs.ticks(port, rows))
        for port, progress in enumerate(state.progress):
            self.on_progress(port, progress)
        self._promised = self._adopted = state.promised

    def _tuples(self, port: int, batch: Batch) -> Tuples:
        rows = self._inputs.named(port, batch.rows)
        return self._indexes[port][0].tuples(batch.with_rows(rows), self._inputs.ticks(port, rows))
