"""GROUP BY without windows, and the bounds by which groups are complete: group-wise punctuation
that closes windows for single groups, joint bounds, and lateness of tuples as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, from_ticks, to_ticks
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.operator import Base, Item, LateRows, OpenResults, Progress, at_once
from penstock.kernel.progress.group_bounds import GroupBounds, HighestBounds
from penstock.kernel.state import ChunkStore, Slices, Tree, Within, required
from penstock.kernel.windows.results import with_late_columns
from penstock.model.arrays import Codes, Ints, Mask, floor_div, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT, Field, Type
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes.aggregation import GroupAggregate, WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.window_kinds import Sliding

# Windows that are closed for single groups, ahead of the stream.
#
# A group-wise punctuation completes the windows of the groups that it names.  That helps where all
# of its columns are plain keys: then every result is of one punctuated group.


def plain_names(keys: Sequence[Named]) -> list[str | None]:
    """Qualified names of the keys that are plain columns; None for computed keys."""
    return [
        Field(each.name, each.type, each.relation).qualified
        if isinstance(each := key.expression, Column)
        else None
        for key in keys
    ]


class ClosingGroups(NamedTuple):
    """Groups, in the order of their codes, that may have results to be given: of the windows from
    the first to the last one."""

    codes: Codes
    first: Ints
    last: Ints

    def at(self, window: int) -> Codes:
        """The places of the groups for which a window closes."""
        return np.flatnonzero((self.first <= window) & (window <= self.last))


class ClosedGroups:
    """Windows that have been closed for single groups, as far as they are not closed for all."""

    def __init__(self, node: WindowAggregate, folder: Folder) -> None:
        assert isinstance(node.window, Sliding)
        assert node.attribute is not None
        self._window = node.window
        self._bound = BoundOf(node.attribute)
        self._folder = folder
        self._types = [key.expression.type for key in node.keys]
        self._names = plain_names(node.keys)
        self._keys: list[int] = []  # those that punctuations speak of, once one has come
        self._given: HighestBounds | None = None  # the last window that was emitted, by group
        self._places: Codes = np.zeros(0, np.int64)  # of the groups, among them

    @property
    def begun(self) -> bool:
        """Whether any window has been closed for single groups."""
        return self._given is not None

    def close(self, groups: GroupBounds | None, closed: Bound) -> ClosingGroups | None:
        """Close windows for groups that are not `closed` for all yet; from now on, those count as
        emitted."""
        if groups is None or closed == END:
            return None
        ticks = self._bound.of_groups(groups)
        if ticks is None or not set(groups.columns) <= set(self._names):
            return None
        if self._given is None:
            self._begin([self._names.index(column) for column in groups.columns])
            assert self._given is not None
        punctuated = self._given.codes(groups.keys, len(groups))
        first = self._given.of(punctuated) + 1
        if closed != BEGINNING:
            first = np.maximum(first, int(closed) + 1)
        last = floor_div(ticks, plus=-self._window.origin, by=self._window.slide) - 1
        self._given.raise_to(punctuated, last)
        places = self._placed()
        number = np.full(len(self._given), -1)
        number[punctuated] = np.arange(len(punctuated))
        codes = np.flatnonzero(number[places] >= 0)
        number = number[places[codes]]
        open_ = first[number] <= last[number]
        codes, number = codes[open_], number[open_]
        return ClosingGroups(codes, first[number], last[number]) if len(codes) else None

    def not_given(self, window: int, codes: Codes) -> Codes:
        """Groups whose results of a window have not been emitted."""
        if self._given is None or self._given.highest < window:
            return codes
        return codes[self._given.of(self._placed()[codes]) < window]

    def first_open(self, window: int, codes: Codes) -> Ints:
        """First window from `window` on whose results have not been emitted, for each group."""
        if self._given is None:
            return np.full(len(codes), window)
        return np.maximum(window, self._given.of(self._placed()[codes]) + 1)

    def _begin(self, keys: list[int]) -> None:
        self._keys = keys
        self._given = HighestBounds([self._types[key] for key in keys])

    def _placed(self) -> Codes:
        """The number of each group among the punctuated ones."""
        assert self._given is not None
        size = len(self._folder.keys)
        if len(self._places) < size:
            fresh = np.arange(len(self._places), size)
            columns = self._folder.keys.take(fresh)
            added = self._given.codes([columns[key] for key in self._keys], len(fresh))
            self._places = np.concatenate([self._places, added])
        return self._places

    def forget(self, closed: Bound) -> None:
        """Drop the windows that are closed for all."""
        if self._given is not None and self._given.forget(closed):
            self._places = self._places[:0]

    def renumber(self, codes: Codes) -> None:
        """The groups in `codes` stay, and are numbered by their places there."""
        if self._given is not None:
            self._places = self._placed()[codes]

    def save(self, store: ChunkStore) -> None:
        if self._given is not None:
            store.put("closed keys", self._keys)
            self._given.save(Within(store, "closed/"))

    def load(self, store: ChunkStore) -> None:
        keys = store.get("closed keys")
        if keys is not None:
            self._begin(keys)
            assert self._given is not None
            self._given.load(Within(store, "closed/"))


# Joint bounds, where two keys of a group progress: no later tuple is below both (section 7.2).
#
# A group that is below both is complete, though later tuples may be below either.


class JointBounds:
    """Joint bounds on pairs of progressing expressions, each of one column."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._of = [BoundOf(each) for each in expressions]
        self._pairs = {
            (one.columns[0], other.columns[0]): (i, j)
            for (i, one), (j, other) in permutations(enumerate(self._of), 2)
            if len(one.columns) == len(other.columns) == 1
        }
        self._bounds: dict[tuple[int, int], tuple[Bound, Bound]] = {}

    def take_in(self, progress: Progress) -> None:
        """Merge the joint bounds of a punctuation; bounds do not move back, so the last one is the
        highest."""
        for each in progress.joint:
            places = self._pairs.get(each.attributes)
            if places is not None:
                alone = Progress(dict(zip(each.attributes, each.bounds, strict=True)))
                first, second = (self._of[place].promised(alone) for place in places)
                if BEGINNING not in (first, second):
                    self._bounds[places] = first, second

    def passed(self, ticks: Ints) -> Mask | None:
        """Mask of the groups that are complete by a joint bound; `ticks` has a row for each
        expression.  None if no joint bound is known."""
        found: Mask | None = None
        for (i, j), (first, second) in self._bounds.items():
            below = (ticks[i] < first) & (ticks[j] < second)
            found = below if found is None else found | below
        return found

    def save(self) -> Tree:
        return [[*places, *bounds] for places, bounds in self._bounds.items()]

    def load(self, saved: Tree) -> None:
        self._bounds = {(i, j): (first, second) for i, j, first, second in saved}


# Bounds that hold for single groups, where groups are made by progressing keys (GROUP BY).


class PunctuatedGroups:
    """Bounds of group-wise punctuations on some progressing expressions."""

    def __init__(self, keys: Sequence[Named], expressions: Sequence[Expression]) -> None:
        self._names = plain_names(keys)
        self._types = [key.expression.type for key in keys]
        self._bounds = [BoundOf(expression) for expression in expressions]
        self._keys: list[int] = []  # those that punctuations speak of, once one has come
        self._highest: list[HighestBounds] = []  # by expression

    def take_in(self, groups: GroupBounds | None) -> bool:
        """Merge a group-wise punctuation; return whether it bounds groups that can be told apart
        here."""
        if groups is None or not set(groups.columns) <= set(self._names):
            return False
        if not self._highest:
            self._begin([self._names.index(column) for column in groups.columns])
        for bound, highest in zip(self._bounds, self._highest, strict=True):
            ticks = bound.of_groups(groups)
            if ticks is not None:
                highest.raise_to(highest.codes(groups.keys, len(groups)), ticks)
        return True

    def of(self, columns: list[pa.Array]) -> Ints | None:
        """The bounds on each expression for groups with these keys; None if there are none."""
        if not self._highest:
            return None
        punctuated, rows = [columns[key] for key in self._keys], len(columns[0])
        return np.stack([each.of(each.codes(punctuated, rows)) for each in self._highest])

    def forget(self, bounds: Sequence[Bound]) -> None:
        """Evict the groups without bounds above those that hold for all."""
        for highest, bound in zip(self._highest, bounds, strict=False):
            highest.forget(bound)

    def _begin(self, keys: list[int]) -> None:
        self._keys = keys
        types = [self._types[key] for key in keys]
        self._highest = [HighestBounds(types) for _ in self._bounds]

    def save(self, store: ChunkStore) -> None:
        if self._highest:
            store.put("punctuated keys", self._keys)
        for number, highest in enumerate(self._highest):
            highest.save(Within(store, f"punctuated/{number}/"))

    def load(self, store: ChunkStore) -> None:
        keys = store.get("punctuated keys")
        if keys is not None:
            self._begin(keys)
        for number, highest in enumerate(self._highest):
            highest.load(Within(store, f"punctuated/{number}/"))


# GROUP BY with a key that progresses: groups are complete when the bound passes their key.
#
# Groups are kept in slices of the first progressing key, each with a numbering of its own.  A slice
# that has many groups is left alone, and a new one begins above the highest key so far; so complete
# groups are dropped with their slice, and no state is touched group by group.


class GroupedOperator(Base):
    """GROUP BY with progressing keys: fold tuples into slices of groups, emit groups that are
    complete."""

    def __init__(self, node: GroupAggregate) -> None:
        self.schema = node.schema.arrow
        self._names = [each.field.qualified for each in node.progress]
        expressions = list(node.completing)
        self._waits = node.counted and len(expressions) > 1
        self._in_time = InTime(expressions, node.input)
        self._punctuated = PunctuatedGroups(node.keys, expressions)
        self._joint = JointBounds([] if self._waits else expressions)
        self._position_type = node.position.type
        self._position = compile_expression(node.position, node.input.schema)
        folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._slices = Slices(lambda: _Groups(folder, len(expressions)))
        self.high: list[Bound] = [BEGINNING] * len(expressions)  # of what has been released
        self._bounds: list[Bound] = [BEGINNING] * len(expressions)

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split(batch)
        yield from late
        for groups, part, ticks in self._slices.parts(given, keys):
            groups.fold(part, ticks, to_ticks(self._position(part), self._position_type))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        self._bounds = bounds = self._in_time.promised(progress)
        punctuated = self._punctuated.take_in(progress.groups)
        self._joint.take_in(progress)
        leaving = first_alone(bounds) if self._waits else bounds
        anywhere = punctuated or (len(bounds) > 1 and not self._waits)
        for groups in self._slices.upto(END if anywhere else bounds[0]):
            own = self._punctuated if punctuated else None
            codes = groups.complete(leaving, self._joint, own)
            if len(codes):
                codes = codes[leaving_order(codes, groups.ticks[0], groups.folder)]
                self.high = [
                    max(high, int(ticks[codes].max()))
                    for high, ticks in zip(self.high, groups.ticks, strict=True)
                ]
                yield Batch(as_batch(groups.folder.finish(groups.partials, codes), self.schema))
        self._slices.forget(bounds[0])
        self._punctuated.forget(bounds)
        named = zip(self._names, self.high, strict=True)
        high = {name: bound for name, bound in named if bound != BEGINNING}
        if progress.ended:
            yield Progress({}, high, ended=True)
            return
        if self._waits:
            bounds = not_above(bounds, [each.lowest_waiting() for each in self._slices.upto(END)])
        promised = zip(self._names, bounds, strict=True)
        yield Progress({name: b for name, b in promised if b != BEGINNING}, high)

    def save(self, store: ChunkStore) -> None:
        self._slices.save(store)
        self._punctuated.save(store)
        joint = self._joint.save()
        store.put("run", {"high": self.high, "bounds": self._bounds, "joint": joint})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._slices.load(store)
            self._punctuated.load(store)
            self.high, self._bounds = saved["high"], saved["bounds"]
            self._joint.load(saved.get("joint", []))
            left = first_alone(self._bounds) if self._waits else self._bounds
            for groups in self._slices.upto(END):
                groups.complete(left, self._joint, self._punctuated)  # these have left

    def open_results(self) -> OpenResults:
        return OpenResults(others=sum(groups.waiting for groups in self._slices.upto(END)))


class _Groups:
    """The groups of one slice: their progressing keys, partial results, and which have left."""

    def __init__(self, folder: Folder, progressing: int) -> None:
        self.folder = copy(folder)
        self.folder.keys = folder.keys.empty()
        self.partials = self.folder.new()
        self.ticks: Ints = np.zeros((progressing, 0), np.int64)
        self._left: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    def __len__(self) -> int:
        return len(self.folder.keys)

    @property
    def waiting(self) -> int:
        """Number of groups that have not been emitted."""
        return len(self) - int(np.count_nonzero(self._left[: len(self)]))

    def fold(self, batch: pa.RecordBatch, ticks: Ints, positions: Ints) -> None:
        rows = self.folder.rows(batch, positions)
        self.folder.fold(self.partials, rows)
        if self.ticks.shape[1] < len(self):
            self.ticks = np.stack([grown(each, len(self), 0) for each in self.ticks])
            self._left = grown(self._left, len(self), False)
        self.ticks[:, rows.codes] = ticks

    def complete(
        self, bounds: list[Bound], joint: JointBounds, punctuated: PunctuatedGroups | None
    ) -> Ints:
        """Groups that now lie below a bound: on all tuples, on pairs of columns, or on their
        own."""
        passed = np.zeros(len(self), np.bool_)
        for ticks, bound in zip(self.ticks[:, : len(self)], bounds, strict=True):
            if bound == END:
                passed[:] = True
            elif bound != BEGINNING:
                passed |= ticks < int(bound)
        both = joint.passed(self.ticks[:, : len(self)])
        if both is not None:
            passed |= both
        if punctuated is not None:
            own = punctuated.of(self.folder.keys.take(np.arange(len(self))))
            if own is not None:
                passed |= (self.ticks[:, : len(self)] < own).any(axis=0)
        passed &= ~self._left[: len(self)]
        self._left[: len(self)] |= passed
        return np.flatnonzero(passed)

    def lowest_waiting(self) -> list[Bound]:
        """The lowest of each progressing key among the groups that have not left."""
        return lowest_of(self.ticks[:, : len(self)], ~self._left[: len(self)])

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        ticks = self.ticks[:, : len(self)]
        store.put("groups", {"ticks": ticks, "partials": self.folder.save(self.partials)})

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        saved = required(store, "groups")
        self.ticks, self._left = saved["ticks"], np.zeros(len(self), np.bool_)
        self.partials = self.folder.load(saved["partials"])


def leaving_order(codes: Codes, ticks: Ints, folder: Folder) -> Ints:
    """Order in which groups are emitted: by the first key that can complete them, of which every
    code has a tick, then by all keys."""
    by_key = folder.keys.order_of(codes)
    order: Ints = by_key[stable_order(ticks[codes[by_key]])]
    return order


def first_alone(bounds: list[Bound]) -> list[Bound]:
    """The bounds that groups leave by if their rows are counted: they come by the first key."""
    return [bounds[0], *(bound if bound == END else BEGINNING for bound in bounds[1:])]


def lowest_of(ticks: Ints, which: npt.NDArray[np.bool_]) -> list[Bound]:
    return [int(each[which].min()) if which.any() else END for each in ticks]


def not_above(bounds: list[Bound], lowest: Iterable[list[Bound]]) -> list[Bound]:
    """Bounds on the results while groups wait that a bound on another key than the first has
    passed: these are still to come."""
    return [min(each) for each in zip(bounds, *lowest, strict=True)]


# --- late as a whole -----------------------------------------------------------------------------


class InTime:
    """Splits off the tuples that are below the bound of one of some progressing expressions: they
    are late."""

    def __init__(self, expressions: list[Expression], node: Node) -> None:
        self._types = [expression.type for expression in expressions]
        self._columns = [compile_expression(each, node.schema) for each in expressions]
        self._bounds = [BoundOf(expression) for expression in expressions]

    def promised(self, progress: Progress) -> list[Bound]:
        return [bound.promised(progress) for bound in self._bounds]

    def final(self, progress: Progress) -> list[Bound]:
        """The bounds below which no tuple counts any more."""
        return self.promised(progress)

    def split(
        self, batch: Batch, id_type: Type = BIGINT
    ) -> tuple[pa.RecordBatch, Ints, list[LateRows]]:
        """The tuples in time, the ticks of the expressions, the late ones."""
        kept, ticks, late = self.in_time(batch, id_type)
        if kept is None:
            return batch.rows, ticks, late
        return batch.rows.filter(pa.array(kept)), ticks[:, kept], late

    def split_signed(self, batch: Batch) -> tuple[Batch, Ints, list[LateRows]]:
        """Split a batch like `split`, with its optional columns."""
        kept, ticks, late = self.in_time(batch)
        left = batch.without_broken()
        if kept is None:
            return left, ticks, late
        return left.filter(pa.array(kept)), ticks[:, kept], late

    def in_time(
        self, batch: Batch, id_type: Type = BIGINT
    ) -> tuple[Mask | None, Ints, list[LateRows]]:
        """Find the tuples in time (None: all), the ticks of all, and the late ones."""
        given, ticks = batch.rows, self._ticks_of(batch.rows)
        if batch.broken is None:
            return None, ticks, []
        kept = np.ones(batch.num_rows, np.bool_)
        late = []
        for values, sql_type, bound in zip(ticks, self._types, self._bounds, strict=True):
            rows, bounds = bound.broken(batch)
            below = (values[rows] < bounds) & kept[rows]
            rows, bounds = rows[below], bounds[below]
            if len(rows):
                kept[rows] = False
                late.append(wholly_late(given.take(pa.array(rows)), bounds, sql_type, id_type))
        return kept, ticks, late

    def _ticks_of(self, rows: pa.RecordBatch) -> Ints:
        columns = zip(self._columns, self._types, strict=True)
        ticks = [to_ticks(column(rows), sql_type) for column, sql_type in columns]
        return ticks[0][np.newaxis] if len(ticks) == 1 else np.stack(ticks)


def wholly_late(rows: pa.RecordBatch, bounds: Ints, sql_type: Type, id_type: Type) -> LateRows:
    """Late rows that missed everything, instead of single windows."""
    nothing = pa.nulls(rows.num_rows, id_type.arrow)
    return LateRows(with_late_columns(rows, [from_ticks(bounds, sql_type), nothing, nothing]))


def as_batch(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the types of the schema."""
    pairs = zip(columns, schema, strict=True)
    cast = [c if c.type == field.type else c.cast(field.type) for c, field in pairs]
    return pa.RecordBatch.from_arrays(cast, schema=schema)
