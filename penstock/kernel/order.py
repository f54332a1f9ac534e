"""Order of rows by a progressing column: the sort buffer (WaitingRows), EMIT IN ORDER (InOrder),
and the union that keeps rows in order (Merge).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch, from_signed_record, signed_record
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.groups.group_by import InTime
from penstock.kernel.operator import NOTHING_OPEN, Base, Item, OpenResults, Progress, at_once
from penstock.kernel.revisions.amendment import Forgiving
from penstock.kernel.state import AppendLog, ChunkStore, Tree
from penstock.kernel.stateless import Meld, WayOut
from penstock.model.arrays import Ints, sorted_runs_order, stable_order
from penstock.model.punctuation import BEGINNING, END, SIGN, Bound
from penstock.model.types import Field, Type
from penstock.plan.expressions import Column, Expression, rises_with
from penstock.plan.nodes.node import Union
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Asked, Sorting

_FEW = 8  # runs that are left as they are, however long
_SHORT = 64  # rows of a run that is not worth cutting


# The sort buffer: rows are kept in sorted runs, and leave in order up to a tick.
#
# A run is as long as all shorter ones behind it together, so there are few of them, and a row is
# moved only now and then; what has left is dropped with its run, or cut off it.


class InTurn(NamedTuple):
    """Rows in the order of their ticks; those without one come last, and count as at the end."""

    rows: pa.RecordBatch
    ticks: Ints


@dataclass(slots=True)
class _Run:
    rows: pa.RecordBatch
    ticks: Ints  # ascending
    begin: int = 0  # what is before it has left

    def __len__(self) -> int:
        return len(self.ticks) - self.begin

    def left(self) -> InTurn:
        return InTurn(self.rows.slice(self.begin), self.ticks[self.begin :])

    def take(self, last: Bound) -> InTurn | None:
        """Cut off the rows up to a tick."""
        count = _upto(self.ticks[self.begin :], last)
        if count == 0:
            return None
        end = self.begin + count
        taken = InTurn(self.rows.slice(self.begin, count), self.ticks[self.begin : end])
        self.begin = end
        if _SHORT < end < len(self.ticks) < 2 * end:  # what has left would stay in memory
            rows, ticks = self.left()
            self.rows, self.ticks = rows.take(pa.array(np.arange(len(ticks)))), ticks.copy()
            self.begin = 0
        return taken


class WaitingRows:
    """The sort buffer.

    Rows of equal ticks leave in the order in which they came.  Rows without a tick (NULL) wait
    for the end.
    """

    def __init__(self, name: str = "waiting") -> None:
        """The `name` is that of its chunks."""
        self._name = name
        self._runs: list[_Run] = []
        self._last: list[pa.RecordBatch] = []
        self._taken: Bound = BEGINNING
        self._takes = 0  # how often something was taken: what came later has not left
        self._log = AppendLog(name)
        self._last_saved = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(int(rows.num_rows) for rows in self._last)

    def lowest(self) -> Bound:
        """The lowest tick that waits."""
        return min((int(run.ticks[run.begin]) for run in self._runs), default=END)

    def add(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if not len(ticks):
            return
        given = in_turn(rows, ticks)
        piece: Tree = {"rows": given.rows, "ticks": given.ticks, "takes": self._takes}
        self._log.append(piece, max(int(given.ticks[-1]), self._taken) + 1)
        self._push(given)

    def add_last(self, rows: pa.RecordBatch) -> None:
        """Rows that have no tick."""
        if rows.num_rows:
            self._last.append(rows)

    def take(self, last: Bound) -> InTurn | None:
        """The rows up to a tick, if there are any; with the end, all of them."""
        self._takes += 1
        if last > self._taken:
            self._taken = last
            self._log.pass_(last)
        found = [taken for run in self._runs if (taken := run.take(last)) is not None]
        if found:
            self._runs = [run for run in self._runs if len(run)]
        taken = merged(found)
        if last != END or not self._last:
            return taken
        rows = [*([taken.rows] if taken is not None else []), *self._last]
        ticks = taken.ticks if taken is not None else np.zeros(0, np.int64)
        self._last = []
        joined = pa.concat_batches(rows)
        fill = np.full(joined.num_rows - len(ticks), np.iinfo(np.int64).max)
        return InTurn(joined, np.concatenate([ticks, fill]))

    def take_simultaneous(self) -> InTurn | None:
        """Take the rows that have come since the last take and are not above its tick: they need
        not wait."""
        return self.take(self._taken) if self.lowest() <= self._taken else None

    def take_all(self) -> InTurn | None:
        """Take all rows with a tick, in order, ahead of progress; later rows wait as before."""
        taken = self.all()
        self._runs = []
        self._log.begin_anew()
        return taken

    def all(self) -> InTurn | None:
        """All rows with a tick, in order; they stay in the buffer."""
        return merged([run.left() for run in self._runs])

    @property
    def unplaced(self) -> Sequence[pa.RecordBatch]:
        """Rows without a tick (NULL)."""
        return self._last

    def _push(self, given: InTurn) -> None:
        self._runs.append(_Run(*given))
        while len(self._runs) > _FEW and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            two = [run.left() for run in self._runs[-2:]]
            both = merged(two)
            assert both is not None
            self._runs[-2:] = [_Run(*both)]

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """Write the rows that have come since the last save."""
        self._log.save(store, self._kept)
        store.put(f"{self._name} taken", {"upto": self._taken, "takes": self._takes})
        if self._last:
            store.put(f"{self._name} last", pa.concat_batches(self._last))
        elif self._last_saved:
            store.drop(f"{self._name} last")
        self._last_saved = len(self._last)

    def _kept(self) -> Iterator[tuple[Tree, Bound]]:
        for run in self._runs:
            rows, ticks = run.left()
            until = max(int(ticks[-1]), self._taken) + 1
            yield {"rows": rows, "ticks": ticks, "takes": self._takes}, until

    def load(self, store: ChunkStore, names: list[str]) -> None:
        """The columns are the same, but may be called something else by now."""
        taken = store.get(f"{self._name} taken")
        if taken is None:
            return
        self._taken, self._takes = taken["upto"], taken["takes"]
        for piece in self._log.load(store):
            rows, ticks = piece["rows"].rename_columns(names), piece["ticks"]
            begin = 0
            if piece["takes"] < self._takes:
                begin = _upto(ticks, self._taken)
            if begin < len(ticks):
                self._push(InTurn(rows.slice(begin), ticks[begin:]))
        last = store.get(f"{self._name} last")
        if last is not None:
            self._last = [last.rename_columns(names)]
            self._last_saved = 1


def in_turn(rows: pa.RecordBatch, ticks: Ints) -> InTurn:
    """Sort rows by their ticks; stable."""
    return _sorted_by(stable_order, rows, ticks)


def _sorted_by(order_of: Callable[[Ints], Ints], rows: pa.RecordBatch, ticks: Ints) -> InTurn:
    if len(ticks) == 1 or (ticks[:-1] <= ticks[1:]).all():
        return InTurn(rows, ticks)
    order = order_of(ticks)
    return InTurn(rows.take(pa.array(order)), ticks[order])


def merged(several: Sequence[InTurn]) -> InTurn | None:
    """Merge rows of several, in the order of their ticks; None if there are no rows."""
    if len(several) <= 1:
        return several[0] if several else None
    ticks = np.concatenate([each.ticks for each in several])
    rows = pa.concat_batches([each.rows for each in several])
    return _sorted_by(sorted_runs_order, rows, ticks)


def _upto(ticks: Ints, last: Bound) -> int:
    """Number of ticks that are not above `last`; `ticks` ascend."""
    if not len(ticks) or last < ticks[0]:
        return 0
    return len(ticks) if last >= ticks[-1] else int(np.searchsorted(ticks, int(last), "right"))


# EMIT IN ORDER: rows wait until progress has passed them, and leave sorted.
#
# A row below the bound that held before it is late: rows that should follow it may have left.


class InOrder(Base):
    """EMIT IN ORDER by the first column that progresses.  Rows that may be revised do not wait:
    they may be retracted at any time, so only those too late to count are late."""

    def __init__(self, query: QueryPlan, asked: Asked | None = None) -> None:
        field = query.progress[0].field
        self._name, self._type = field.qualified, field.type
        self._signed = query.signed
        self._names = [each.qualified for each in query.schema] + [SIGN] * query.signed
        columns: list[Expression] = [Column.of(field)]
        self._in_time = (
            InTime(columns, query.input)
            if asked is None
            else Forgiving(columns, query.input, asked)
        )
        self._waits = asked is None
        self._held = WaitingRows("held")

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.broken is not None:
            batch, _, late = self._in_time.split_signed(batch)
            yield from late
        if batch.num_rows == 0:
            return
        if self._waits:
            record = signed_record(batch, always=self._signed)
            let_wait(self._held, record, record.column(self._name), self._type)
            yield from _leaving(self._held.take_simultaneous())
        else:
            yield batch

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = END if progress.ended else progress.bounds.get(self._name, BEGINNING)
        yield from _leaving(self._held.take(bound))  # what is yet to come is not below it
        yield Progress(self._kept(bound), progress.high, progress.ended)

    def _kept(self, bound: Bound) -> dict[str, Bound]:
        """Bounds that hold for rows that leave later.  Waiting rows may be behind in other columns,
        and amended rows come below any bound."""
        return {self._name: bound} if self._waits and bound not in (BEGINNING, END) else {}

    def rows_held(self) -> int:
        return len(self._held)

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        self._held.save(store)

    def load(self, store: ChunkStore) -> None:
        self._held.load(store, self._names)


def _leaving(taken: InTurn | None) -> Iterator[Batch]:
    if taken is not None:
        yield from_signed_record(taken.rows)


def let_wait(held: WaitingRows, rows: pa.RecordBatch, column: pa.Array, sql_type: Type) -> None:
    """Rows that leave in the order of a column; NULLs come last."""
    if column.null_count:
        known = column.is_valid()
        held.add_last(rows.filter(pa.array(~np.asarray(known))))
        rows, column = rows.filter(known), column.drop_null()
    held.add(rows, to_ticks(column, sql_type))


# The union that keeps rows in order (Merge): they wait until every input has passed them.
#
# A tuple below the bound that held before it is late, as under EMIT IN ORDER: rows that should
# follow it may have left.


class Merge(Meld):
    """The union that keeps order, an idle-waiting operator: rows leave when no input can bring one
    that belongs before them."""

    def __init__(self, node: Union, sorting: Sorting | None = None) -> None:
        """`sorting` is the order; by default that of the first column that progresses."""
        super().__init__(node)
        if sorting is None:
            sorting = Sorting(Column.of(node.progress[0].field))
        self._key = compile_expression(sorting.by, node.schema)
        self._type = sorting.by.type
        self._bound = BoundOf(sorting.by)
        self._in_time = InTime([sorting.by], node)
        self._late = _LateRows(node, sorting)
        # rows that wait are above the bound on what they are sorted by, perhaps not above others
        columns = set(rises_with(sorting.by))
        fields = [Field(each.name, each.type, each.relation) for each in columns]
        self._passed = {each.qualified for each in fields} if len(columns) == 1 else set()
        self._waiting = WaitingRows()

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given = self._renamed(port, batch)
        if given.broken is not None:
            kept, _, _ = self._in_time.in_time(given)
            if kept is not None and not kept.all():
                yield from self._late.of(given.filter(pa.array(~kept)))
                given = given.filter(pa.array(kept))
        if given.num_rows:
            self._keep([given.rows])
            released = self._waiting.take_simultaneous()
            if released is not None:
                yield Batch(released.rows)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        for promised in self._melded(port, progress):
            released = self._waiting.take(self._bound.promised(promised))
            if released is not None:
                yield Batch(released.rows)
            passed = {n: bound for n, bound in promised.bounds.items() if n in self._passed}
            yield Progress(passed, promised.high, promised.ended)

    def rows_held(self) -> int:
        return len(self._waiting)

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        self._save_registers(store)
        self._waiting.save(store)

    def load(self, store: ChunkStore) -> None:
        self._load_registers(store)
        self._waiting.load(store, self._output)

    def _kept(self) -> tuple[pa.RecordBatch, ...]:
        waiting = self._waiting.all()
        return (*([] if waiting is None else [waiting.rows]), *self._waiting.unplaced)

    def _keep(self, several: Iterable[pa.RecordBatch]) -> None:
        for rows in several:
            let_wait(self._waiting, rows, self._key(rows), self._type)


class _LateRows:
    """Late tuples in the columns that they would have had outside."""

    def __init__(self, node: Union, sorting: Sorting) -> None:
        self._way = WayOut(sorting.above)
        top = sorting.above[-1][0] if sorting.above else node
        self._in_time = InTime([Column.of(top.progress[0].field)], top)

    def of(self, batch: Batch) -> Iterator[Item]:
        outside = self._way.through(batch)
        if outside is not None:
            _, _, late = self._in_time.split(outside)
            yield from late
