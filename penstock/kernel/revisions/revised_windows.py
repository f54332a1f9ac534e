"""Window aggregation whose results may be revised: late tuples that count, the changes since the
last early answer, and the base of revised sliding and landmark windows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import Folder, Partials, Rows
from penstock.kernel.operator import (
    NOTHING_OPEN,
    Item,
    LateRows,
    OpenResults,
    Progress,
    at_once,
    open_windows,
)
from penstock.kernel.revisions.amendment import EarlyAnswers, behind, with_amended
from penstock.kernel.revisions.emitted_rows import (
    Above,
    Emitted,
    Failing,
    Groups,
    Revisions,
    provisional,
    typed,
)
from penstock.kernel.state import ChunkStore, Tree
from penstock.kernel.windows.results import Missed, promised
from penstock.model.arrays import Codes, Ints, different, floor_div
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import Type
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.physical import Asked
from penstock.plan.window_kinds import Landmark, Sliding

# Late tuples of windows over values, where some of them are amended.


class LateForWindows:
    """Splits off late tuples of windows over values.  `grace` is how far behind the bound late
    tuples still count; None: they always do."""

    def __init__(
        self,
        window: Sliding | Landmark,
        bound: BoundOf,
        grace: int | None,
        types: tuple[Type, Type],
    ) -> None:
        """`types` are those of the attribute and of the windows' ids."""
        self._slide, self._origin = window.slide, window.origin
        self._bound, self._grace = bound, grace
        self._types = types

    def split(self, batch: Batch, first: Ints, stop: Ints) -> tuple[Ints, LateRows | None]:
        """First window in which each tuple counts, of those from `first` to before `stop`, and the
        late tuples."""
        if batch.broken is None:
            return first, None
        broke, bounds = self._bound.broken(batch)
        open_ = floor_div(bounds, plus=-self._origin, by=self._slide)
        missing = (open_ > first[broke]) & (first[broke] < stop[broke])
        if not missing.any():
            return first, None
        late, bounds = broke[missing], bounds[missing]
        first_missed, stops = first[late], stop[late]
        begin = first.copy()
        if self._grace is not None:
            left = floor_div(bounds, plus=-self._origin - self._grace, by=self._slide)
            begin[late] = np.clip(left, first_missed, stops)
        missed = Missed(late, bounds, first_missed, np.minimum(open_[missing], stops) - 1)
        found = missed.late_rows(batch.rows, *self._types)
        if self._grace:  # neither none nor unlimited: late rows tell whether they count
            found = with_amended(found, begin[late] == first_missed)
        return begin, found


# Changes since the last early answer.

_MANY = 64  # arrays after which they are joined: batches of single tuples would be many


class Changes:
    """The groups that tuples came to since the last early answer, and a span of windows that holds
    all they came to."""

    def __init__(self, codes: Codes | None = None, begin: int = 0, last: int = 0) -> None:
        self._codes = [] if codes is None else [codes]
        self.begin = begin
        self.last = last

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, codes: Codes, begin: int, stop: int) -> None:
        first = not self._codes
        self.begin = begin if first else min(self.begin, begin)
        self.last = stop - 1 if first else max(self.last, stop - 1)
        self._codes.append(different(codes))
        if len(self._codes) > _MANY:
            self._codes = [self.codes()]

    def codes(self) -> Codes:
        return different(np.concatenate(self._codes))

    def renumber(self, place: Codes) -> None:
        self._codes = [different(place[codes]) for codes in self._codes]

    def save(self) -> Tree:
        return [self.codes(), self.begin, self.last] if self._codes else None


# Window aggregation whose results may be revised: early answers, and late tuples that count.
#
# The rows that have been emitted for a window are remembered until it is final.  When it changes, a
# retraction removes the old row and an insertion gives the new; all items leave with a sign.  This
# is what sliding and landmark windows share (`revised_panes.py`).


class RevisingWindows(EarlyAnswers):
    """Base of window aggregations with early answers and late tuples that count; subclasses keep
    the contents of windows."""

    def __init__(self, node: WindowAggregate, asked: Asked, clock: Clock) -> None:
        assert isinstance(node.window, Sliding | Landmark)
        assert node.attribute is not None
        super().__init__(clock, asked)
        self.node = node
        self.final_only = asked.final_only
        self.grace = asked.grace(node.attribute.type)
        self.slide, self.origin = node.window.slide, node.window.origin
        self.attribute_type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self.bound = BoundOf(node.attribute)
        types = node.attribute.type, node.schema.fields[0].type
        self._late = LateForWindows(node.window, self.bound, self.grace, types)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self._result_types = [each.type for each in node.schema.arrow][3 + len(node.keys) :]
        self.released: Bound = BEGINNING  # the last window that has been complete
        self.gone: Bound = BEGINNING  # the last window that cannot be revised any more
        self._highest: int | None = None  # of the windows that had results
        self.shown: dict[int, Emitted] = {}  # by window
        self._revised: set[int] = set()  # windows with emitted rows since the last save
        self._stored: set[int] = set()
        self._failing = Failing()
        self._check = Above.of(asked.above)
        self.changes = Changes() if asked.answers_early else None

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if batch.num_rows == 0:
            return
        given = batch.rows
        ticks = to_ticks(self._attribute(given), self.attribute_type)
        first, stop = self.windows_of(ticks)
        begin, late_rows = self._late.split(batch, first, stop)
        if late_rows is not None:
            yield late_rows
        self.reach(int(ticks.max()))
        inside = begin < stop
        if not inside.all():
            given, ticks = given.filter(pa.array(inside)), ticks[inside]
            first, begin, stop = first[inside], begin[inside], stop[inside]
        if given.num_rows == 0:
            return
        rows = self.folder.rows(given, ticks)
        self.fold(rows, first, begin, stop)
        if self.changes is not None:
            self.changes.add(rows.codes, int(begin.min()), int(stop.max()))
        late = np.flatnonzero(begin <= self.released)
        if len(late):
            yield from self._amend(rows.codes[late], begin[late], stop[late])

    def _amend(self, codes: Codes, begin: Ints, stop: Ints) -> Iterator[Item]:
        """Revise the released windows that late tuples belong to."""
        stop = np.minimum(stop, int(self.released) + 1)
        spans = np.unique(np.stack([begin, stop]), axis=1).T.tolist()
        yield from self._emit(list(_union(spans)), np.unique(codes))

    def _emit(
        self, windows: list[int], codes: Codes | None, final: Bound = BEGINNING
    ) -> Iterator[Item]:
        """Emit the results of windows, as far as they have not been emitted before; up to the
        `final` one, nothing can change them any more."""
        said = Revisions(self.node, self.folder)
        for wid, groups in self._without_failing(self.results(windows, codes)):
            if groups.error is not None and wid <= final:
                raise groups.error
            self._failing.note(wid, groups.failing, codes)
            shown = self.shown.setdefault(wid, Emitted())
            taken, given = shown.revise(groups, codes)
            said.add(wid, taken, given)
            self._revised.add(wid)
            if len(given):
                self._highest = wid if self._highest is None else max(wid, self._highest)
        batch = said.batch()
        if batch is not None:
            yield batch.positive() if self.final_only else batch

    def _without_failing(self, found: Iterator[tuple[int, Groups]]) -> Iterable[tuple[int, Groups]]:
        """Drop the results that fail in the steps above."""
        return found if self._check is None else self._check.tried(self.node, self.folder, found)

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Release the windows that end at or below the bound, and drop those that are final."""
        self.reach(self.bound.reached(progress))
        bound = self.bound.promised(progress)
        gone = self.last_closed(behind(bound, self.grace))
        last = self.last_released(gone if self.final_only else self.last_closed(bound))
        if last > self.released:
            windows = list(self.in_use(self.released + 1, last))
            self.released = last
            yield from self._emit(windows, None, gone)
        if gone > self.gone:
            self.gone = gone
            for wid, codes in self._failing.upto(min(gone, self.released)):
                yield from self._emit([wid], codes, gone)
            for wid in [wid for wid in self.shown if wid <= min(gone, self.released)]:
                del self.shown[wid]
            self.forget(min(gone, self.released))
        reached = None if self._highest is None else self._highest + 1
        yield promised(self._window, self.next_final(gone), reached, progress.ended)

    def early(self) -> Iterator[Item]:
        """Emit provisional results of the windows that have changed since the last call."""
        if self.changes is not None and len(self.changes) and self.released != END:
            windows, codes = self.early_windows()
            yield from self._emit(list(windows), codes)
            self.changes = Changes()

    def open_results(self) -> OpenResults:
        """Windows that have not been released, and those some results of which have no value."""
        if self.released == END:
            return NOTHING_OPEN
        failing = (wid for wid, _ in self._failing.upto(self.released))
        return open_windows(chain(failing, self.in_use(self.released + 1, END)))

    @property
    def _window(self) -> Sliding | Landmark:
        assert isinstance(self.node.window, Sliding | Landmark)
        return self.node.window

    def last_closed(self, bound: Bound) -> Bound:
        """The last window that ends at or below a bound."""
        if bound in (BEGINNING, END):
            return bound
        return (int(bound) - self.origin) // self.slide - 1

    def groups(self, folder: Folder, content: Partials, codes: Codes | None = None) -> Groups:
        """The groups that have rows and their results; `codes` are those of the folder's keys."""
        keys = len(self.node.keys)
        made = provisional(
            lambda some: typed(folder.finish(content, some)[keys:], self._result_types),
            np.flatnonzero(content.rows.rows),
        )
        if codes is None:
            return Groups(*made)
        return Groups(codes[made.codes], made.columns, codes[made.failing], made.error)

    # --- what differs between kinds of windows ---------------------------------------------------

    @abstractmethod
    def windows_of(self, ticks: Ints) -> tuple[Ints, Ints]:
        """The first window of each tuple and the one after its last."""

    @abstractmethod
    def fold(self, rows: Rows, first: Ints, begin: Ints, stop: Ints) -> None:
        """Fold tuples that belong to the windows from `first`, but count from `begin`."""

    @abstractmethod
    def results(self, windows: list[int], codes: Codes | None) -> Iterator[tuple[int, Groups]]:
        """The results of some windows, which ascend, for all groups or for some; all groups are
        asked for only of windows that come after those of the time before."""

    @abstractmethod
    def in_use(self, first: Bound, last: Bound) -> Iterator[int]:
        """The windows from `first` to `last` that have tuples."""

    @abstractmethod
    def forget(self, gone: Bound) -> None:
        """Drop the windows up to `gone`, which will not be asked for any more."""

    @abstractmethod
    def reach(self, tick: Bound) -> None:
        """Note that the stream has come to a tick."""

    def last_released(self, closed: Bound) -> Bound:
        return closed

    def next_final(self, gone: Bound) -> Bound:
        """First window whose results may still change."""
        return gone + 1

    def early_windows(self) -> tuple[Iterator[int], Codes | None]:
        """The open windows that may have changed, and the groups that have; None for all."""
        assert self.changes is not None
        first = max(self.released + 1, self.changes.begin)
        return self.in_use(first, self.changes.last), self.changes.codes()

    # --- state -----------------------------------------------------------------------------------

    def save_windows(self, store: ChunkStore) -> None:
        """Save the state of this base class."""
        self.folder.keys.save(store)
        for wid in self._revised & self.shown.keys():
            store.put(f"shown/{wid}", self.shown[wid].save())
            self._stored.add(wid)
        for wid in self._stored - self.shown.keys():
            store.drop(f"shown/{wid}")
        self._stored &= self.shown.keys()
        self._revised.clear()
        store.put("failing", self._failing.save())
        changes = self.changes.save() if self.changes is not None else None
        store.put("windows", [self.released, self.gone, self._highest, changes])

    def load_windows(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        for key in store.names():
            kind, _, wid = key.partition("/")
            if kind == "shown":
                self.shown[int(wid)] = Emitted.load(store.get(key))
        self._stored = set(self.shown)
        self._failing.load(store.get("failing"))
        saved = store.get("windows")
        if saved is not None:
            self.released, self.gone, self._highest, changes = saved
            if self.changes is not None and changes is not None:
                self.changes = Changes(*changes)

    def renumber_shown(self, place: Codes) -> None:
        """Replace the codes of groups by new ones."""
        for shown in self.shown.values():
            shown.renumber(place)
        self._revised.update(self.shown)
        self._failing.renumber(place)
        if self.changes is not None:
            self.changes.renumber(place)


def _union(spans: list[list[int]]) -> Iterator[int]:
    """The numbers in spans that are ordered by their beginnings, each once, ascending."""
    at: int | None = None
    for begin, stop in spans:
        start = begin if at is None else max(at, begin)
        yield from range(start, stop)
        at = max(start, stop)
