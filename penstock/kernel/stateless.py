"""Operators without state from tuple to tuple: Filter, Project, Unnest; Stamp, which keeps the last
stamp only; and Union, which keeps the bounds of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.columns import column_of
from penstock.expressions.compiler import compile_expression, compile_predicate
from penstock.expressions.evaluation import compile_alone
from penstock.expressions.nested_kernels import bounds_of
from penstock.expressions.sizes import RowSizes
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, from_ticks
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Base,
    Item,
    OpenResults,
    Progress,
    at_once,
    by_name,
    by_origin,
)
from penstock.kernel.progress.group_bounds import GroupBounds, MeldedGroups
from penstock.kernel.retractions.lineage import of_branch
from penstock.kernel.state import ChunkStore, MemoryStore, Tree
from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.types import BIGINT, INT, Field, Kind
from penstock.model.values import RowForm
from penstock.plan.expressions import BetweenConstants, Column, may_fail, needed_for
from penstock.plan.identity import origins
from penstock.plan.nodes.node import Filter, Node, Project, Stamp, Union, Unnest
from penstock.plan.physical import Steps


class Stateless(Base):
    """Base of operators that keep nothing from tuple to tuple."""

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        pass

    def load(self, store: ChunkStore) -> None:
        pass


# Filter: tuples for which a predicate is true; progress passes unchanged.


class FilterOperator(Stateless):
    """Pass on the tuples for which the predicate is true, and progress unchanged."""

    def __init__(self, node: Filter) -> None:
        self.predicate = node.predicate
        self.schema = node.input.schema
        self._holds = compile_predicate(node.predicate, node.input.schema)
        self._holds_for = compile_alone(node.predicate, node.input.schema)

    @cached_property
    def needed(self) -> BetweenConstants | None:
        """Comparison with constants that every passing tuple satisfies: other tuples need not be
        handed in.  None if the predicate can fail, or has no such comparison."""
        return None if may_fail(self.predicate) else needed_for(self.predicate)

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.form is not None and self._holds_for is not None:
            return [batch] if self._holds_for(batch.values) is True else []
        mask = self._holds(batch.rows)
        passing = mask.true_count
        if not passing:
            return []
        return [batch if passing == len(mask) else batch.filter(mask)]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [progress]


# Project: computed columns, and progress on those that rise with progressing ones.


class ProjectOperator(Stateless):
    """Computed columns, and the bounds of those that rise with progressing ones."""

    def __init__(self, node: Project) -> None:
        self._columns = [compile_expression(c.expression, node.input.schema) for c in node.columns]
        self._sizes = RowSizes([c.expression for c in node.columns])
        alone = [compile_alone(c.expression, node.input.schema) for c in node.columns]
        self._values = [] if self._sizes.matter else [each for each in alone if each is not None]
        self._schema = node.schema.arrow
        self._form = RowForm(node.schema)
        by_name = {column.name: column.expression for column in node.columns}
        self._bounds = {
            each.field.qualified: BoundOf(by_name[each.field.name]) for each in node.progress
        }
        self._plain = {  # columns that stay as they are, and what they are called now
            Field(each.name, each.type, each.relation).qualified: field.qualified
            for column, field in zip(node.columns, node.schema, strict=True)
            if isinstance(each := column.expression, Column)
        }

        plain = [c.expression for c in node.columns if isinstance(c.expression, Column)]
        self._places: list[int] | None = None  # of columns that only get another name
        if len(plain) == len(node.columns) and all(c.type.kind is not Kind.NULL for c in plain):
            self._places = [column.position(node.input.schema) for column in plain]

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        if batch.form is not None and len(self._values) == len(self._columns):
            return [Batch.single(tuple([of(batch.values) for of in self._values]), self._form)]
        rows = batch.rows
        if self._places is not None:
            columns = [rows.column(place) for place in self._places]
        else:
            computed = (column(rows) for column in self._columns)
            columns = self._sizes.checked(computed) if self._sizes.matter else list(computed)
        made = batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if batch.form is not None:
            made.form = self._form
        if batch.broken is not None:
            made = made.without_broken()
            for name, bound in self._bounds.items():
                rows, ticks = bound.broken(batch)
                bounds = np.zeros(batch.num_rows, np.int64)
                broken = np.zeros(batch.num_rows, np.bool_)
                bounds[rows], broken[rows] = ticks, True
                made = made.breaking(name, bounds, broken)
        return [made]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        bounds: dict[str, Bound] = {}
        high: dict[str, Bound] = {}
        for name, bound in self._bounds.items():
            bounds[name], high[name] = bound.promised(progress), bound.reached(progress)
        groups = None if progress.groups is None else self._groups(progress.groups)
        joint = self._joint(progress.joint) if progress.joint else ()
        return [Progress(bounds, high, progress.ended, groups, joint)]

    def _joint(self, joint: tuple[JointPunctuation, ...]) -> tuple[JointPunctuation, ...]:
        """Keep the joint bounds on pairs of columns that are both projected unchanged."""
        kept = [each for each in joint if self._plain.keys() >= set(each.attributes)]
        return tuple(each.renamed(self._plain) for each in kept)

    def bounds(self, bounds: Mapping[str, Ints]) -> dict[str, Ints]:
        """Bounds on the computed columns that follow from many bounds, of different tuples."""
        found = {name: bound.of_many(bounds) for name, bound in self._bounds.items()}
        return {name: ticks for name, ticks in found.items() if ticks is not None}

    def _groups(self, groups: GroupBounds) -> GroupBounds | None:
        """Bounds on groups that can still be told apart."""
        if not self._plain.keys() >= set(groups.columns):
            return None
        bounds = self.bounds(groups.bounds)
        columns = tuple(self._plain[column] for column in groups.columns)
        return GroupBounds(columns, groups.keys, bounds) if bounds else None


# Stamp: gives tuples of LATENT streams their time, at the operator that first needs one.

_LOWEST = np.iinfo(np.int64).min


class StampOperator(Base):
    """Stamps tuples of LATENT streams with the time of the clock.  Stamps are in order: where the
    clock goes back, they stay."""

    def __init__(self, node: Stamp, clock: Clock) -> None:
        self._clock = clock
        self._position = node.column.position(node.schema)
        self._field = node.schema.arrow.field(self._position)
        self._name = node.schema.fields[self._position].qualified
        self._type = node.schema.fields[self._position].type
        self._origins = origins(node.input)
        self._given = Progress()
        self.high: Bound = BEGINNING

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        now = np.fromiter((self._clock.now() for _ in range(batch.num_rows)), np.int64)
        start = _LOWEST if self.high == BEGINNING else int(self.high)
        times = np.maximum.accumulate(np.concatenate([[start], now]))[1:]
        self.high = int(times[-1])
        stamps = from_ticks(times, self._type)
        batch = batch.with_rows(batch.rows.set_column(self._position, self._field, stamps))
        if batch.broken is not None:  # where one progressing column has bounds, all have
            none = np.zeros(batch.num_rows, np.bool_)
            batch = batch.breaking(self._name, times, none)
        yield batch
        yield self._progress()  # the input may have none of its own

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        self._given = progress
        yield self._progress()

    def _progress(self) -> Progress:
        given = self._given
        if self.high == BEGINNING:
            return given
        reached = {self._name: self.high}
        return Progress({**given.bounds, **reached}, {**given.high, **reached}, given.ended)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        store.put("run", {"high": self.high, "given": self._given.save(self._origins)})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self.high, self._given = saved["high"], Progress.load(saved["given"], self._origins)


# Unnest: every tuple once for each item of an ARRAY or MAP of it; progress passes unchanged.


class UnnestOperator(Stateless):
    """Repeat each tuple for every item of its ARRAY or MAP; with `outer`, tuples without items
    once, with NULL."""

    def __init__(self, node: Unnest) -> None:
        self._node = node
        self._collection = compile_expression(node.expression, node.input.schema)
        self.schema: pa.Schema = node.schema.arrow

    def on_batch(self, port: int, batch: Batch) -> list[Item]:  # noqa: ARG002
        made = self.unnested(batch)
        return [made] if made.num_rows else []

    def unnested(self, batch: Batch) -> Batch:
        lists = self._collection(batch.rows)
        begins, sizes = bounds_of(lists)
        copies = np.maximum(sizes, 1) if self._node.outer else sizes
        rows = np.repeat(np.arange(len(lists)), copies)
        ends = np.cumsum(copies)
        numbers = np.arange(len(rows)) - np.repeat(ends - copies, copies)
        empty = np.repeat(sizes == 0, copies)  # of tuples that come without an item
        places = pa.array(np.where(empty, 0, np.repeat(begins, copies) + numbers), mask=empty)
        taken = batch.take(rows)
        items = self._items(lists.values.take(places))
        if self._node.from_zero:
            items.insert(0, column_of(numbers, INT, places))
        elif self._node.numbered:
            items.append(column_of(numbers + 1, BIGINT, places))
        columns = [*taken.rows.columns, *items]
        return taken.with_rows(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _items(self, items: pa.Array) -> list[pa.Array]:
        node = self._node
        if node.expression.type.kind is Kind.MAP or node.spread:
            return [pc.struct_field(items, [place]) for place in range(items.type.num_fields)]
        return [items]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:  # noqa: ARG002
        return [progress]


# Union: tuples pass at once, without buffering (Meld); progress is that of the slowest input.


@dataclass(frozen=True, slots=True)
class UnionState:
    """State that unions exchange: the bounds of their inputs, as chunks, and the rows that still
    wait."""

    registers: Mapping[str, Tree] = field(default_factory=dict)
    rows: tuple[pa.RecordBatch, ...] = ()


class Meld(Base):
    """The union that passes tuples through, with the bounds of the slowest input (figure 8-2 of the
    thesis), for all tuples and for single groups.  No bound is emitted twice."""

    def __init__(self, node: Union) -> None:
        self._output = [field.qualified for field in node.schema]
        self._form = RowForm(node.schema)
        self._names = [  # of the columns of each branch, and what they are called here
            dict(zip((f.qualified for f in branch.schema), self._output, strict=True))
            for branch in node.branches
        ]
        self._origins = origins(node)
        self._bounds: list[dict[str, Bound]] = [{} for _ in node.branches]
        self._ended = [False] * len(node.branches)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        types = {each.qualified: each.type for each in node.schema}
        self._groups = MeldedGroups(types, self._origins, len(node.branches))
        self._adopted: list[pa.RecordBatch] = []  # rows that another union had let wait

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        if batch.lineage is not None:
            lineage = of_branch(batch.lineage, port, len(self._names))
            batch = replace(batch, lineage=lineage)
        renamed = self._renamed(port, batch)
        return [*self._leaving(), renamed] if self._adopted else [renamed]

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        melded = self._melded(port, progress)
        return [*self._leaving(), *melded] if self._adopted else [*melded]

    def _leaving(self) -> list[Batch]:
        leaving, self._adopted = self._adopted, []
        return [Batch(each) for each in leaving]

    def _renamed(self, port: int, batch: Batch) -> Batch:
        if batch.form is not None:
            return Batch.single(batch.values, self._form)
        if batch.broken is None:
            return batch.with_rows(batch.rows.rename_columns(self._output))
        return batch.renamed(self._names[port])

    def _melded(self, port: int, progress: Progress) -> list[Progress]:
        names = self._names[port]
        self._bounds[port] = {names[k]: v for k, v in progress.bounds.items() if k in names}
        self._ended[port] = self._ended[port] or progress.ended
        for key, value in progress.high.items():
            name = names.get(key)
            if name is not None and value > self._high.get(name, BEGINNING):
                self._high[name] = value
        promised = Progress(self._slowest(), dict(self._high), all(self._ended))
        before, self._promised = self._promised, promised
        if progress.groups is not None or self._groups:
            groups = progress.groups.renamed(names) if progress.groups is not None else None
            of_groups = self._groups.risen(port, groups, self._bounds_of_inputs)
            if of_groups:
                return [replace(promised, groups=each) for each in of_groups]
        # a change of `high` alone completes nothing: it is emitted with the next bound
        news = promised.bounds != before.bounds or promised.ended != before.ended
        return [promised] if news else []

    def _slowest(self) -> dict[str, Bound]:
        """Lowest bound on each column on which all inputs that have not ended have a bound."""
        slowest: dict[str, Bound] | None = None
        for bounds, ended in zip(self._bounds, self._ended, strict=True):
            if ended:
                continue
            if slowest is None:
                slowest = dict(bounds)
                continue
            for name in list(slowest):
                if name not in bounds:
                    del slowest[name]
                elif bounds[name] < slowest[name]:
                    slowest[name] = bounds[name]
        return slowest or {}

    def _bounds_of_inputs(self, name: str) -> list[Bound]:
        """Bound of every input on a column, for all of its tuples."""
        pairs = zip(self._bounds, self._ended, strict=True)
        return [END if ended else bounds.get(name, BEGINNING) for bounds, ended in pairs]

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._save_registers(store)
        if self._adopted:
            store.put("adopted", list(self._adopted))
        else:
            store.drop("adopted")

    def load(self, store: ChunkStore) -> None:
        self._load_registers(store)
        self._adopted = [rows.rename_columns(self._output) for rows in store.get("adopted") or ()]

    def _save_registers(self, store: ChunkStore) -> None:
        bounds = [by_origin(each, self._origins) for each in self._bounds]
        high, promised = by_origin(self._high, self._origins), self._promised.save(self._origins)
        registers = {"bounds": bounds, "ended": self._ended, "high": high}
        store.put("run", {**registers, "promised": promised})
        self._groups.save(store)

    def _load_registers(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._bounds = [by_name(each, self._origins) for each in saved["bounds"]]
            self._ended, self._high = saved["ended"], by_name(saved["high"], self._origins)
            self._promised = Progress.load(saved["promised"], self._origins)
            self._groups.load(store)

    def export(self) -> UnionState:
        store = MemoryStore()
        self._save_registers(store)
        registers = {name: store.get(name) for name in store.names()}
        return UnionState(registers, self._kept())

    def adopt(self, state: UnionState) -> None:
        store = MemoryStore()
        for name, chunk in state.registers.items():
            store.put(name, chunk)
        self._load_registers(store)
        self._keep(rows.rename_columns(self._output) for rows in state.rows)

    def _kept(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(self._adopted)

    def _keep(self, several: Iterable[pa.RecordBatch]) -> None:
        self._adopted += several


# Rows on their way through the stateless nodes between an operator and the end of a query.


class WayOut:
    """Rows taken through the stateless nodes between an operator and the end of a query."""

    def __init__(self, steps: Steps) -> None:
        self._steps = [(_operator(node), port) for node, port in steps]

    def through(self, batch: Batch) -> Batch | None:
        """Rows that come out at the end; None if none of them is left."""
        for operator, port in self._steps:
            made = [each for each in operator.on_batch(port, batch) if isinstance(each, Batch)]
            if not made or made[0].num_rows == 0:
                return None
            (batch,) = made
        return batch


def _operator(node: Node) -> FilterOperator | ProjectOperator | Meld:
    match node:
        case Filter():
            return FilterOperator(node)
        case Project():
            return ProjectOperator(node)
        case Union():
            return Meld(node)
    raise AssertionError(f"rows do not go on through a {type(node).__name__}")
