"""GROUP BY with a key that progresses: groups are complete when the bound passes their key.

Groups are kept in slices of the first progressing key, each with a numbering of its own.  A slice
that has many groups is left to itself, and a new one begins above the highest key so far; so what
is complete goes away with its slice, and no state is touched group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.stable_order import stable_order
from penstock.model.types import BIGINT, Type
from penstock.operators.batch import Batch
from penstock.operators.bounds import BoundOf
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.scatter import grown
from penstock.operators.folding.slices import Slices
from penstock.operators.groups.joint import JointBounds
from penstock.operators.groups.punctuated import PunctuatedGroups
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, LateRows, Progress, at_once
from penstock.operators.ticks import from_ticks, to_ticks
from penstock.operators.windows.results import with_late_columns
from penstock.plan.expressions import Expression
from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.plan.nodes.node import Node
from penstock.state.chunks import ChunkStore, required


class GroupedOperator(Base):
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
        """How many have not left."""
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
        """The groups that have come to lie below a bound: on all tuples, on pairs of columns, or on
        their own."""
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
    """How to put groups in the order in which they leave: by the first key that can complete them,
    of which every code has a tick, then by all keys."""
    by_key = folder.keys.order_of(codes)
    order: Ints = by_key[stable_order(ticks[codes[by_key]])]
    return order


def first_alone(bounds: list[Bound]) -> list[Bound]:
    """The bounds that groups leave by if their rows are counted: they come by the first key."""
    return [bounds[0], *(bound if bound == END else BEGINNING for bound in bounds[1:])]


def lowest_of(ticks: Ints, which: npt.NDArray[np.bool_]) -> list[Bound]:
    return [int(each[which].min()) if which.any() else END for each in ticks]


def not_above(bounds: list[Bound], lowest: Iterable[list[Bound]]) -> list[Bound]:
    """What can be promised while groups wait that a bound on another key than the first has passed:
    these are still to come."""
    return [min(each) for each in zip(bounds, *lowest, strict=True)]


# --- late as a whole -----------------------------------------------------------------------------


class InTime:
    """Sets aside the tuples that are below the bound of one of some progressing expressions."""

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
        """The same, with what is beside the rows."""
        kept, ticks, late = self.in_time(batch)
        left = batch.without_broken()
        if kept is None:
            return left, ticks, late
        return left.filter(pa.array(kept)), ticks[:, kept], late

    def in_time(
        self, batch: Batch, id_type: Type = BIGINT
    ) -> tuple[Mask | None, Ints, list[LateRows]]:
        """Which tuples are in time (None: all), the ticks of all, the late ones."""
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
    """Late rows that did not miss single windows but everything."""
    nothing = pa.nulls(rows.num_rows, id_type.arrow)
    return LateRows(with_late_columns(rows, [from_ticks(bounds, sql_type), nothing, nothing]))


def as_batch(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the types of the schema."""
    pairs = zip(columns, schema, strict=True)
    cast = [c if c.type == field.type else c.cast(field.type) for c, field in pairs]
    return pa.RecordBatch.from_arrays(cast, schema=schema)
