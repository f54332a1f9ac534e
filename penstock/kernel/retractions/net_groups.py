"""GROUP BY with a progressing key, and DISTINCT, over signed items."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import from_ticks, to_ticks
from penstock.kernel.grouping.folding import Folder
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.grouping.keys import KeyCodes
from penstock.kernel.groups.group_by import (
    as_batch,
    first_alone,
    leaving_order,
    lowest_of,
    not_above,
)
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.retractions.lineage import (
    happening_order,
    lineage_of,
    made_of,
    signs_of,
    stacked,
)
from penstock.kernel.retractions.net_items import KeptItems, matched
from penstock.kernel.revisions.amendment import in_time_of
from penstock.kernel.state import ChunkStore, Within
from penstock.model.arrays import Codes, Ints, Mask, stable_order, stable_order_by
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import Distinct, GroupAggregate
from penstock.plan.physical import Asked

# GROUP BY over signed items: they are kept until their group is complete, and folded if nothing in
# it has retracted them.


class SignedGroups(Base):
    """GROUP BY with progressing keys over signed items: emit groups that are complete, folded from
    the items that remain."""

    def __init__(self, node: GroupAggregate, asked: Asked | None = None) -> None:
        self.schema = node.schema.arrow
        self._names = [each.field.qualified for each in node.progress]
        expressions = list(node.completing)
        self._waits = node.counted and len(expressions) > 1
        self._in_time = in_time_of(expressions, node.input, asked)
        self._position_type = node.position.type
        self._position = compile_expression(node.position, node.input.schema)
        self._folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._items = KeptItems(node.input.schema.arrow, tags=len(expressions))
        self._high: list[Bound] = [BEGINNING] * len(expressions)  # of what has been released

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, keys, late = self._in_time.split_signed(batch)
        yield from late
        positions = to_ticks(self._position(given.rows), self._position_type)
        self._items.add(given, positions, list(keys))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bounds = self._in_time.final(progress)
        due = self._below(first_alone(bounds) if self._waits else bounds)
        if due.any():
            yield from self._folded(np.flatnonzero(due))
            self._items.remove(due)
        named = zip(self._names, self._high, strict=True)
        high = {name: bound for name, bound in named if bound != BEGINNING}
        if progress.ended:
            yield Progress({}, high, ended=True)
            return
        if self._waits:
            everything = np.ones(len(self._items), np.bool_)
            bounds = not_above(bounds, [lowest_of(self._items.tags, everything)])
        promised = zip(self._names, bounds, strict=True)
        yield Progress({name: b for name, b in promised if b != BEGINNING}, high)

    def _below(self, bounds: list[Bound]) -> Mask:
        """Mask of the items of groups that now lie below a bound."""
        due = np.zeros(len(self._items), np.bool_)
        for ticks, bound in zip(self._items.tags, bounds, strict=True):
            due |= ticks < bound
        return due

    def _folded(self, places: Ints) -> Iterator[Item]:
        items = self._items
        places = places[
            happening_order(items.ticks[places], items.signs[places], items.lineage[places])
        ]
        folder = copy(self._folder)
        folder.keys = folder.keys.empty()  # the groups are complete, and do not come again
        groups = folder.codes(items.batch(places).rows)
        _, taken = matched(groups, items.signs[places], items.lineage[places])
        there = items.signs[places] > 0
        there[taken] = False
        left = places[there]
        if not len(left):
            return
        rows = folder.rows(items.batch(left).rows, items.ticks[left])
        partials = folder.new()
        folder.fold(partials, rows)
        codes = np.flatnonzero(partials.rows.rows)
        ticks = np.zeros((len(self._high), len(folder.keys)), np.int64)
        ticks[:, rows.codes] = items.tags[:, left]
        codes = codes[leaving_order(codes, ticks[0], folder)]
        self._high = [
            max(high, int(own[codes].max())) for high, own in zip(self._high, ticks, strict=True)
        ]
        yield Batch(as_batch(folder.finish(partials, codes), self.schema))

    def rows_held(self) -> int:
        return len(self._items)

    def open_results(self) -> OpenResults:
        """Items that wait for their groups to be complete."""
        return OpenResults(others=len(self._items))

    def save(self, store: ChunkStore) -> None:
        self._items.save(store)
        store.put("run", {"high": self._high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is not None:
            self._items.load(store)
            self._high = saved["high"]


# DISTINCT over signed items: a row is present while at least one tuple with its values is.

_MANY = 4096  # values below which none is forgotten
_UNKNOWN = -1


class SignedDistinct(Base):
    """DISTINCT over signed items.  They wait for the bound, which settles the retractions; then the
    number of tuples with each value is known at every time."""

    def __init__(self, node: Distinct, asked: Asked | None = None) -> None:
        self.schema = node.schema.arrow
        self._when = node.when
        field = node.schema.fields[node.when]
        self._name, self._type = field.qualified, field.type
        self._in_time = in_time_of([Column.of(field)], node.input, asked)
        self._waiting = KeptItems(node.input.schema.arrow)
        types = [each.type for place, each in enumerate(node.schema) if place != node.when]
        self._values = KeyCodes(types)
        self._counts: Ints = np.zeros(0, np.int64)  # of the tuples that are there, by value
        self._named: Ints = np.zeros(0, np.int64)  # the lineage of the rows that are, by value
        self._next = 0  # the next lineage
        self._there: Codes = np.zeros(0, np.int64)  # the values of tuples that may be retracted
        self._lineage: Ints = np.zeros((0, 1), np.int64)  # and where they come from
        self._look_again = _MANY

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, ticks, late = self._in_time.split_signed(batch)
        yield from late
        self._waiting.add(given, ticks[0])

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (bound,) = self._in_time.final(progress)
        settled = self._waiting.below(bound)
        if settled is not None:
            yield from self._settled(settled[0], settled[1])
            self._forget()
        bounds = {} if bound in (BEGINNING, END) else {self._name: bound}
        yield Progress(bounds, progress.high, progress.ended)

    def _settled(self, batch: Batch, ticks: Ints) -> Iterator[Item]:
        known = len(self._there)
        others = [each for place, each in enumerate(batch.rows.columns) if place != self._when]
        codes = self._values.encode(others, batch.num_rows)
        signs = np.concatenate([np.ones(known, np.int8), signs_of(batch)])
        values = np.concatenate([self._there, codes])
        lineage = stacked([self._lineage, lineage_of(batch)])
        takers, taken = matched(values, signs, lineage)
        came = known + np.flatnonzero(signs[known:] > 0)
        changed = np.concatenate([came, takers])  # negative items without effect are left out
        steps = np.repeat([1, -1], [len(came), len(takers)])
        yield from self._changes(values[changed], ticks[changed - known], steps)
        stays = signs > 0
        stays[taken] = False
        stays &= lineage[:, 0] >= 0
        self._there, self._lineage = values[stays], lineage[stays]

    def _changes(self, codes: Codes, ticks: Ints, steps: Ints) -> Iterator[Item]:
        """Emit the changes of rows that follow from tuples that come and go.  One that goes as
        another comes makes no difference, so all changes of a time count together."""
        if not len(codes):
            return
        size = max(1, len(self._values))
        self._counts = grown(self._counts, size, 0)
        self._named = grown(self._named, size, _UNKNOWN)
        order = stable_order_by(codes, ticks)
        codes, ticks = codes[order], ticks[order]
        after = np.cumsum(steps[order])
        begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        sizes = np.diff(np.append(begins, len(codes)))
        after += np.repeat(self._counts[codes[begins]] - (after - steps[order])[begins], sizes)
        same = (codes[1:] == codes[:-1]) & (ticks[1:] == ticks[:-1])
        lasts = np.flatnonzero(np.append(~same, True))  # of each value and time
        own, times, present = codes[lasts], ticks[lasts], after[lasts] > 0
        before = np.append(False, present[:-1])
        news = np.append(True, own[1:] != own[:-1])
        before[news] = self._counts[own[news]] > 0
        ends = np.flatnonzero(np.append(own[1:] != own[:-1], True))
        self._counts[own[ends]] = after[lasts][ends]
        said = np.flatnonzero(before != present)
        if len(said):
            yield self._rows(own[said], times[said], present[said])

    def _rows(self, codes: Codes, ticks: Ints, present: np.typing.NDArray[np.bool_]) -> Batch:
        lineage = made_of(self._lineage_of(codes, present), ticks)
        by_value = self._values.order_of(codes)
        order = by_value[stable_order(ticks[by_value])]
        columns = self._values.take(codes[order])
        columns.insert(self._when, from_ticks(ticks[order], self._type))
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        signs = np.where(present[order], 1, -1).astype(np.int8)
        return Batch(rows, signs, lineage=lineage[order])

    def _lineage_of(self, codes: Codes, present: np.typing.NDArray[np.bool_]) -> Ints:
        """Lineage of the rows: a row that comes gets a new number, and goes under the same.  Rows
        of one value come and go in turns, one behind the other."""
        new = np.flatnonzero(present)
        numbers = np.full(len(codes), _UNKNOWN)
        numbers[new] = np.arange(self._next, self._next + len(new))
        self._next += len(new)
        gone = np.flatnonzero(~present)
        follows = gone[(gone > 0) & (codes[gone - 1] == codes[gone])]
        numbers[follows] = numbers[follows - 1]
        first = gone[~np.isin(gone, follows)]
        numbers[first] = self._named[codes[first]]
        self._named[codes] = numbers  # the last of each value stays
        return numbers

    def _forget(self) -> None:
        """Give up the numbers of values that are not present, once they are the majority."""
        size = len(self._values)
        if size < self._look_again:
            return
        live = np.flatnonzero(self._counts[:size] > 0)
        self._look_again = max(_MANY, 2 * len(live))
        if 2 * len(live) < size:
            places = np.zeros(size, np.int64)
            places[live] = np.arange(len(live))
            self._values = self._values.only(live)
            self._counts, self._named = self._counts[live], self._named[live]
            self._there = places[self._there]

    def rows_held(self) -> int:
        return len(self._waiting)

    def open_results(self) -> OpenResults:
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(Within(store, "waiting/"))
        self._values.save(store)
        size = len(self._values)
        rows = {"counts": self._counts[:size], "named": self._named[:size], "next": self._next}
        store.put("run", {**rows, "there": self._there, "lineage": self._lineage})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._waiting.load(Within(store, "waiting/"))
        self._values.load(store)
        self._counts, self._named = saved["counts"], saved["named"]
        self._next, self._there, self._lineage = saved["next"], saved["there"], saved["lineage"]
