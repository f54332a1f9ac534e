"""OVER by partition: the bounds on columns while rows wait, rows that wait for the bound, and
partitions that are answered as a whole once they are complete.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.keys import KeyCodes, sorted_places
from penstock.kernel.groups.group_by import as_batch
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.order import InTurn, WaitingRows
from penstock.kernel.over.frames import RowsInPartitions
from penstock.kernel.over.row_order import PartitionSorter, RowOrder
from penstock.kernel.revisions.amendment import behind, in_time_of
from penstock.kernel.state import ChunkStore, Tree
from penstock.model.arrays import Codes, Ints, stable_order
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.expressions import Column
from penstock.plan.nodes.over import Over
from penstock.plan.physical import Asked

_MANY = 64  # batches of waiting rows that are looked through one by one


# Bounds on the columns of rows that wait before they leave.
#
# Rows leave by one key.  Another column may have a higher bound while rows still wait that are
# below that: the bound on results is no higher than these.


class Promises:
    """Bounds on all progressing columns of a node."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        self._columns = []
        for each in node.progress:
            column = Column.of(each.field)
            grace = 0 if asked is None else asked.grace(column.type)
            place = column.position(node.input.schema)
            self._columns.append(_PromisedColumn(column, place, column == node.time, grace))

    def wait(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """Register rows that begin to wait, with the ticks of the key that they leave by."""
        for column in self._columns:
            column.wait(rows, ticks)

    def leave(self, rows: pa.RecordBatch) -> None:
        for column in self._columns:
            column.leave(rows)

    def progress(self, given: Progress, passed: Bound) -> Progress:
        """Progress of the results when all rows have left whose keys are below a bound."""
        high = {each.name: each.high for each in self._columns if each.high is not None}
        bounds = {each.name: each.promised(given, passed) for each in self._columns}
        if given.ended:
            return Progress({}, high, ended=True)
        return Progress({name: low for name, low in bounds.items() if low != BEGINNING}, high)

    def save(self) -> Tree:
        return [column.save() for column in self._columns]

    def load(self, saved: Tree) -> None:
        for column, own in zip(self._columns, saved, strict=True):
            column.load(own)


class _PromisedColumn:
    def __init__(self, column: Column, place: int, completes: bool, grace: int | None) -> None:
        self.name = str(column)
        self.high: int | None = None  # of rows that have left
        self._place, self._type = place, column.type
        self._bound = BoundOf(column)
        self._completes, self._grace = completes, grace
        # the keys of waiting rows in order, and the lowest value from each of them on
        self._waiting: list[tuple[Ints, Ints]] = []

    def wait(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if not self._completes and len(ticks):
            self._waiting.append(_from_the_end(ticks, self._ticks(rows)))
            if len(self._waiting) > _MANY:
                both = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
                self._waiting = [_from_the_end(*both)]

    def leave(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            highest = int(self._ticks(rows).max())
            self.high = highest if self.high is None else max(self.high, highest)

    def _ticks(self, rows: pa.RecordBatch) -> Ints:
        return to_ticks(rows.column(self._place), self._type)

    def promised(self, given: Progress, passed: Bound) -> Bound:
        if self._completes:
            return passed
        if passed == END:
            self._waiting = []
        self._waiting = [each for each in self._waiting if each[0][-1] >= passed]
        bound = behind(self._bound.promised(given), self._grace)
        for keys, lowest in self._waiting:
            begin = 0 if passed <= keys[0] else int(np.searchsorted(keys, int(passed)))
            bound = min(bound, int(lowest[begin]))
        return bound

    def save(self) -> Tree:
        return {"waiting": [list(each) for each in self._waiting], "high": self.high}

    def load(self, saved: Tree) -> None:
        self._waiting = [(keys, lowest) for keys, lowest in saved["waiting"]]
        self.high = saved["high"]


def _from_the_end(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Keys in order, and the lowest of the values from each of them on.

    >>> _from_the_end(np.array([4, 2, 9]), np.array([1, 7, 5]))
    (array([2, 4, 9]), array([1, 1, 5]))
    """
    order = stable_order(keys)
    return keys[order], np.minimum.accumulate(values[order][::-1])[::-1]


# OVER in the order of time: rows wait for the bound, and then are answered by partition.


class Partitioned(Base):
    """Base of OVER in the order of time: partition keys, the sort buffer, and the bounds on
    results."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._promises = Promises(node, asked)
        self._waiting = WaitingRows()
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._keys = KeyCodes([each.type for each in node.partition])
        self._order = RowOrder(node, given)
        self._peers = 0  # how many kinds of rows there have been

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])

    def _codes(self, rows: pa.RecordBatch) -> Codes:
        """Numbers of the partitions of rows."""
        return self._keys.encode([column(rows) for column in self._partition], rows.num_rows)

    def _sort(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> tuple[Ints, Ints]:
        """The places of rows in their order, and numbers that peers share, which no row before has
        had."""
        order = self._order.sort(rows, codes, ticks)
        peers = order.peers + self._peers
        self._peers = int(peers[-1]) + 1
        return order.places, peers

    # --- state -----------------------------------------------------------------------------------

    def _save(self, store: ChunkStore, **more: Tree) -> None:
        self._keys.save(store)
        self._waiting.save(store)
        store.put("run", {"peers": self._peers, "promises": self._promises.save(), **more})

    def _load(self, store: ChunkStore) -> Tree | None:
        """Restore the state; return the rest of the snapshot, or None if there is none."""
        saved = store.get("run")
        if saved is not None:
            self._peers = saved["peers"]
            self._promises.load(saved["promises"])
            self._keys.load(store)
            self._waiting.load(store, self._names)
        return saved


# OVER and LIMIT where a key of the partition progresses: rows wait until their partition is
# complete, and are put in order then.
#
# With a limit on their number, only rows that may be among the first wait: now and then all others
# are dropped.

_FEW = 4096  # rows that may wait before those go that are beyond the limit


class CompletePartitions(Base):
    """OVER and LIMIT over partitions that the bound completes: emit their rows in order, as far as
    they are within the limit."""

    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._waiting = WaitingRows()
        self._types = [each.type for each in node.partition]
        self._sorter = PartitionSorter(node)
        self._kept = 0  # rows, when those beyond the limit were last left out
        self._promises = Promises(node, asked)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        if not rows.num_rows:
            return
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])
        if self._node.most is not None and len(self._waiting) > max(_FEW, 2 * self._kept):
            self._reduce()

    def _reduce(self) -> None:
        """Keep only the rows that are within the limit among those that have come."""
        taken = self._waiting.take_all()
        if taken is None:
            return
        given, places = self._sorted(taken)
        kept = np.sort(places[self._sorter.within_limit(given)])
        self._waiting.add(taken.rows.take(pa.array(kept)), taken.ticks[kept])
        self._kept = len(kept)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound, *_ = self._in_time.final(progress)
        if bound != BEGINNING:
            taken = self._waiting.take(bound if bound == END else bound - 1)
            if taken is not None:
                answered = self._answered(taken)
                if answered.num_rows:  # OFFSET may leave none
                    yield Batch(answered)
                self._kept = min(self._kept, len(self._waiting))
        yield self._promises.progress(progress, bound)

    def _answered(self, taken: InTurn) -> pa.RecordBatch:
        """The rows of complete partitions: by the key that has completed them, then by all keys,
        and in the order that was asked for."""
        given, places = self._sorted(taken)
        targets = self._sorter.shown(given)
        made = self._sorter.answered(given, targets)
        firsts = self._sorter.keys(given.rows.take(pa.array(given.starts)))
        ranks = _ranks([pa.array(taken.ticks[places[given.starts]]), *firsts])
        order = stable_order(ranks[given.numbers[targets]])
        rows = given.rows.take(pa.array(targets[order]))
        columns = [each.take(pa.array(order)) for each in made]
        self._promises.leave(rows)
        return as_batch([*rows.columns, *columns], self._schema)

    def _sorted(self, taken: InTurn) -> tuple[RowsInPartitions, Ints]:
        rows = taken.rows
        codes = KeyCodes(self._types).encode(self._sorter.keys(rows), rows.num_rows)
        return self._sorter.sort(rows, codes)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._waiting)

    def open_results(self) -> OpenResults:
        return OpenResults(others=len(self._waiting))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(store)
        store.put("run", {"kept": self._kept, "promises": self._promises.save()})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._kept = saved["kept"]
        self._waiting.load(store, self._names)
        self._promises.load(saved["promises"])


def _ranks(columns: list[pa.Array]) -> Ints:
    """Rank of each row in the order of some columns."""
    order = sorted_places(columns)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
