"""DISTINCT and DISTINCT ON with late tuples that count: emitted rows are remembered until they are
final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.groups.distinct import ChosenRows, DistinctOperator
from penstock.kernel.joins.join_side import spread
from penstock.kernel.operator import Item, OpenResults, Progress, at_once, open_spans, open_windows
from penstock.kernel.revisions.amendment import EarlyAnswers, Forgiving, behind
from penstock.kernel.revisions.emitted_rows import Above, Emitted, Groups, signed, typed
from penstock.kernel.revisions.revised_windows import LateForWindows
from penstock.kernel.state import ChunkStore
from penstock.kernel.windows.results import last_closed, promised, window_columns
from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT
from penstock.plan.expressions import Column
from penstock.plan.nodes.aggregation import Distinct, DistinctOn
from penstock.plan.physical import Asked

# DISTINCT with late tuples that count: keys are remembered until they are final.
#
# A late tuple is emitted if it is the first of its kind, so nothing is ever retracted.


class AmendingDistinct(DistinctOperator):
    """DISTINCT that emits late tuples, too, if they are the first of their kind."""

    def __init__(self, node: Distinct, asked: Asked) -> None:
        super().__init__(node)
        self._names = [each.field.qualified for each in node.progress]
        expressions = [Column.of(each.field) for each in node.progress]
        self._in_time: Forgiving = Forgiving(list(expressions), node.input, asked)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        final = self._in_time.final(progress)
        self._seen.forget(final[0])
        named = zip(self._names, final, strict=True)
        bounds = {} if progress.ended else {name: b for name, b in named if b != BEGINNING}
        yield Progress(bounds, progress.high, progress.ended)


# DISTINCT ON whose rows may be revised: early answers, and late tuples that count.
#
# The rows that windows have emitted are remembered until they are final.  A late tuple may be the
# first or the last of its key; then the row that was emitted is retracted, and replaced.


class RevisingDistinctOn(EarlyAnswers):
    """DISTINCT ON with early answers and late tuples that count: rows that change are retracted and
    replaced."""

    def __init__(self, node: DistinctOn, asked: Asked, clock: Clock) -> None:
        super().__init__(clock, asked)
        self._node = node
        self._window, self._type = node.window, node.attribute.type
        self._schema = node.schema.arrow
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._grace = asked.grace(node.attribute.type)
        self._late = LateForWindows(node.window, self._bound, self._grace, (self._type, BIGINT))
        self._final_only = asked.final_only
        self._answers_early = asked.answers_early
        self._check = Above.of(asked.above)
        self._rows = ChosenRows(node)
        self._shown: dict[int, pa.RecordBatch] = {}  # by window
        self._failing: set[int] = set()  # windows some of whose rows fail above at present
        self._changed: set[int] = set()  # windows since the last early answers
        self._released: Bound = BEGINNING  # the last window that has been complete
        self._gone: Bound = BEGINNING  # the last window that cannot be revised any more
        self._highest: int | None = None  # of the windows that had rows
        self._changed_windows: set[int] = set()  # since the last save
        self._stored: set[int] = set()

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        ticks = to_ticks(self._attribute(batch.rows), self._type)
        first, stop = self._window.wid_bounds(ticks)
        begin, late = self._late.split(batch, first, stop)
        if late is not None:
            yield late
        self._rows.add(batch.rows, ticks, begin, stop)
        if self._answers_early:
            self._changed.update(_each(begin, stop))
        late_ones = begin <= self._released
        if late_ones.any():
            upto = stop if self._released == END else np.minimum(stop, int(self._released) + 1)
            yield from self._emit(_each(begin[late_ones], upto[late_ones]))

    def _emit(self, windows: Iterable[int], final: Bound = BEGINNING) -> Iterator[Item]:
        """Give the rows of windows, as far as they have not been given before; up to the `final`
        one, nothing can change them any more."""
        ids: list[Ints] = []
        said: list[list[pa.Array]] = []
        signs: list[Ints] = []
        for wid, rows in self._windows(sorted(set(windows))):
            now = self._without_failing(wid, rows, wid <= final)
            for sign, groups in zip((-1, 1), self._revised(wid, now), strict=True):
                if groups is not None and len(groups):
                    ids.append(np.full(len(groups), wid))
                    said.append(groups.columns)
                    signs.append(np.full(len(groups), sign, np.int8))
        if not ids:
            return
        together = [pa.concat_arrays(parts) for parts in zip(*said, strict=True)]
        columns = [*window_columns(self._node, np.concatenate(ids)), *together]
        batch = signed(columns, self._schema, np.concatenate(signs))
        yield batch.positive() if self._final_only else batch

    def _windows(self, windows: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows that some windows show now; the windows ascend."""
        numbers = np.array(windows, np.int64)
        for run in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
            if len(run):
                yield from self._rows.windows(int(run[0]), int(run[-1]))

    def _without_failing(self, wid: int, rows: pa.RecordBatch, is_final: bool) -> pa.RecordBatch:
        """Drop the rows that fail in the steps above."""
        self._failing.discard(wid)
        if self._check is None:
            return rows
        ids = window_columns(self._node, np.full(rows.num_rows, wid))
        columns = typed([*ids, *self._rows.choice.columns(rows)], self._schema.types)
        found = self._check.failing(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        if found.error is None:
            return rows
        if is_final:
            raise found.error
        self._failing.add(wid)
        return rows.take(pa.array(found.codes))

    def _revised(self, wid: int, now: pa.RecordBatch) -> tuple[Groups | None, Groups]:
        """Rows to retract and rows to emit, so that the window shows `now`."""
        choice = self._rows.choice
        before = self._shown.get(wid, now.slice(0, 0))
        codes = choice.ranks(pa.concat_batches([before, now]))
        old = _groups(codes[: before.num_rows], choice.columns(before))
        taken, given = Emitted(old).revise(_groups(codes[before.num_rows :], choice.columns(now)))
        self._shown[wid] = now
        self._changed_windows.add(wid)
        if now.num_rows:
            self._highest = wid if self._highest is None else max(wid, self._highest)
        return taken, given

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        bound = self._bound.promised(progress)
        gone = self._last_closed(behind(bound, self._grace))
        last = gone if self._final_only else self._last_closed(bound)
        if last > self._released:
            begin, self._released = self._released + 1, last
            yield from self._emit(self._in_use(begin, last), gone)
        if gone > self._gone:
            self._gone = gone
            over = min(gone, self._released)
            yield from self._emit([wid for wid in self._failing if wid <= over], gone)
            self._shown = {wid: rows for wid, rows in self._shown.items() if wid > over}
            self._rows.forget(over + 1)
        reached = None if self._highest is None else self._highest + 1
        yield promised(self._window, gone + 1, reached, progress.ended)

    def early(self) -> Iterator[Item]:
        changed, self._changed = self._changed, set()
        yield from self._emit(wid for wid in changed if wid > self._released)

    def _in_use(self, first: Bound, last: Bound) -> set[int]:
        """The windows from `first` to `last` that have rows."""
        found: set[int] = set()
        for begin, stop in self._rows.spans(first):
            found.update(range(begin, stop if last == END else int(min(stop, last + 1))))
        return found

    def _last_closed(self, bound: Bound) -> Bound:
        return bound if bound in (BEGINNING, END) else last_closed(self._window, int(bound))

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return len(self._rows)

    def open_results(self) -> OpenResults:
        """Windows that have not been released, and those some rows of which fail above."""
        released = [wid for wid in self._failing if wid <= self._released]
        return open_windows(released) | open_spans(*self._rows.spans(self._released + 1))

    def save(self, store: ChunkStore) -> None:
        panes = self._rows.save(store)
        for wid in self._changed_windows & self._shown.keys():
            store.put(f"shown/{wid}", self._shown[wid])
        for wid in self._stored - self._shown.keys():
            store.drop(f"shown/{wid}")
        self._stored, self._changed_windows = set(self._shown), set()
        bounds = {"released": self._released, "gone": self._gone, "highest": self._highest}
        windows = {"failing": sorted(self._failing), "changed": sorted(self._changed)}
        store.put("run", {**bounds, **windows, "panes": panes, "shown": sorted(self._shown)})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._rows.load(store, saved["panes"])
        self._released, self._gone = saved["released"], saved["gone"]
        self._highest = saved["highest"]
        self._failing, self._changed = set(saved["failing"]), set(saved["changed"])
        self._shown = {wid: store.get(f"shown/{wid}") for wid in saved["shown"]}
        self._stored = set(self._shown)


def _each(begins: Ints, stops: Ints) -> list[int]:
    """The numbers from each begin to before its stop, once each.

    >>> _each(np.array([7, 1, 2]), np.array([8, 3, 4]))
    [1, 2, 3, 7]
    """
    some = begins < stops
    order = np.argsort(begins[some])
    begins, stops = begins[some][order], np.maximum.accumulate(stops[some][order])
    begins[1:] = np.maximum(begins[1:], stops[:-1])
    found: list[int] = spread(begins, stops - begins, int((stops - begins).sum())).tolist()
    return found


def _groups(codes: Ints, columns: list[pa.Array]) -> Groups:
    """Rows by their keys, of which each has one."""
    order = np.argsort(codes)
    return Groups(codes[order], [column.take(pa.array(order)) for column in columns])
