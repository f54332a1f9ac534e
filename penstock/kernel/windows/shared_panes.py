"""Panes shared by queries that aggregate one stream by the same keys: tuples are folded once; and
the parts of panes as they are saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

import numpy as np
import pyarrow as pa

from penstock.errors import CheckpointError
from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch
from penstock.kernel.bounds import BoundOf, to_ticks
from penstock.kernel.grouping.folding import DeadKeys, Folder, Partials, SmallBatches, mark_groups
from penstock.kernel.operator import NOTHING_OPEN, Base, Item, OpenResults, Progress, at_once
from penstock.kernel.state import ChunkStore, Tree, Within, required
from penstock.kernel.windows.pane_parts import (
    FEW,
    CellPanes,
    PanePart,
    PieceLog,
    SortedRows,
    common_panes,
)
from penstock.kernel.windows.pane_windows import WindowsOfPanesOperator
from penstock.model.arrays import Codes, Ints, Mask, extreme_quotients, floor_div
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.plan.expressions import AggregateCall, Expression
from penstock.plan.nodes.aggregation import NamedAggregate, SharedPanes

# The parts of shared panes as they are saved: those with contents that logged pieces do not have.


class SavedParts:
    """Parts of panes that have to be written, or removed, by the next save."""

    def __init__(self) -> None:
        self._unsaved: dict[PanePart, None] = {}  # new ones, and those that tuples came to
        self._passed: dict[PanePart, None] = {}  # panes of theirs are gone from now on
        self._gone: list[PanePart] = []

    def touch(self, part: PanePart) -> None:
        """Register a part that has contents of its own, which no piece has, or that other queries
        use."""
        self._unsaved[part] = None

    def is_saved(self, part: PanePart) -> None:
        """Register a part that is equal to its snapshot."""
        self._unsaved.pop(part, None)

    def forget_panes(self, parts: Iterable[PanePart]) -> None:
        """Drop the panes that no query needs any more."""
        for part in parts:
            if part.forget():
                self._passed[part] = None

    def without_users(self, parts: Sequence[PanePart]) -> list[PanePart]:
        """Release the parts without queries; return the others."""
        for part in parts:
            if not part.users:
                self._unsaved.pop(part, None)
                self._passed.pop(part, None)
                self._gone.append(part)
        return [part for part in parts if part.users]

    def save(self, store: ChunkStore, turn: int, numbers: Mapping[AggregateCall, int]) -> None:
        """Aggregates are known by their `numbers`."""
        for part in self._gone:
            own = _own(store, part.number)
            part.panes.drop_stored(own)
            own.drop("part")
        for part in self._passed:
            part.panes.save_gone(_own(store, part.number))
        for part in self._unsaved:
            own = _own(store, part.number)
            part.save(own, turn)
            own.put("part", _record(part, numbers))
        self._unsaved, self._passed, self._gone = {}, {}, []


def saved_parts(store: ChunkStore) -> dict[int, Tree]:
    """Records of parts in a store, by their numbers."""
    names = [name.split("/") for name in store.names()]
    found = sorted(int(name[1]) for name in names if name[0] == "parts" and name[-1] == "part")
    return {number: required(_own(store, number), "part") for number in found}


def load_panes(part: PanePart, store: ChunkStore, places: Sequence[int] | None = None) -> None:
    """`places` are those of its aggregates among the ones that its panes were saved with, if these
    are others: some may have been of queries that are gone."""

    def chosen(saved: Tree) -> Tree:
        return {**saved, "parts": [saved["parts"][place] for place in places or ()]}

    part.panes.load(_own(store, part.number), None if places is None else chosen)


def drop_part(store: ChunkStore, number: int) -> None:
    """Remove a part from the store whose queries are gone."""
    own = _own(store, number)
    for name in list(own.names()):
        own.drop(name)


def _record(part: PanePart, numbers: Mapping[AggregateCall, int]) -> Tree:
    users = {
        user.name: [numbers[each.call] for each in user.node.aggregates] for user in part.users
    }
    calls = [numbers[each.call] for each in part.calls]
    return {"pane": part.pane, "turn": part.turn, "users": users, "calls": calls}


def _own(store: ChunkStore, number: int) -> ChunkStore:
    return Within(store, f"parts/{number}/")


# Tuples of a stream folded into panes once, for all queries that aggregate them by the same keys.
#
# Key codes, pieces of time and arguments are computed once for a batch.  Queries with one filter
# have panes in common, as long as the greatest common divisor of theirs; queries with different
# filters have masks over the same codes.  Every query emits its own windows (`pane_windows.py`).

_FEW_ROWS = 128  # that are saved as they are
_SMALL = 1 << 12  # rows of a batch that filters may be looked up for
_NEW = 16  # parts that are folded one by one before cells are found again with them
_NARROW_FILTERS = 8  # at most one of so many has rows, where they are folded one by one
_NARROW = {1: np.uint8, 2: np.uint16}  # by bytes: sorted by counting, which is much faster


class SharedPanesOperator(Base):
    """Folds the tuples of a stream into panes for several queries.  Queries that join when tuples
    have come get panes of their own, for later tuples, and are folded together with the others.
    Those that leave are dropped."""

    def __init__(self, node: SharedPanes) -> None:
        self.node = node
        self._type = node.attribute.type
        self._attribute = compile_expression(node.attribute, node.input.schema)
        self._bound = BoundOf(node.attribute)
        self._users: list[WindowsOfPanesOperator] = []
        self._begun = False
        self._parts: list[PanePart] = []
        self._calls: dict[int, NamedAggregate] = {}  # of all parts, by numbers that stores know
        self._next_call = self._next_part = 0
        self._saved = SavedParts()
        self._log = PieceLog()
        self._kept_rows = False  # whether a store has rows that wait
        self._cells: CellPanes | None = None  # where filters are many
        self._holistic: list[PanePart] = []  # which are folded by themselves
        self._new: list[PanePart] = []  # since cells were found
        self._folder = Folder(node.keys, (), node.input.schema, node.key_order)
        self._unit = 1  # of time, which all panes are multiples of
        self._passed_upto: Bound | None = None  # the last unit that progress has passed
        self._dead = DeadKeys(self._folder)
        self._waiting = SmallBatches()

    def join(self, user: WindowsOfPanesOperator) -> None:
        self._users.append(user)
        if self._begun:
            self._add_query(user)

    def _add_query(self, user: WindowsOfPanesOperator) -> None:
        """Add a part for a new query, which gets nothing of earlier tuples.  As long as new queries
        are few, and existing cells could serve them as well, the cells go on without them."""
        self._ingest()
        keys, known = self._folder.keys, set(self._numbers)
        self._number_calls([user])
        unit = gcd(self._unit, user.pane)
        if self._numbers.keys() != known or unit != self._unit:
            self._hand_over()
            self._cells = None
            self._folder = self._new_folder()
            self._folder.keys = keys
            self._dead = DeadKeys(self._folder)
        self._add_part(user.predicate, user.pane, [user])
        self._new.append(self._parts[-1])
        self._unit, self._passed_upto = unit, None
        self._parts[-1].folder.keys = keys
        user.number_groups_by(keys)

    def _add_part(
        self, predicate: Expression | None, pane: int, users: Sequence[WindowsOfPanesOperator]
    ) -> None:
        number, self._next_part = self._next_part, self._next_part + 1
        calls = list(self._calls.values())
        part = PanePart(self.node, predicate, pane, users, calls, number, self._log.turn)
        self._parts.append(part)
        self._saved.touch(part)

    def _number_calls(self, users: Iterable[WindowsOfPanesOperator]) -> None:
        known = self._numbers
        for each in (each for user in users for each in user.node.aggregates):
            if each.call not in known:
                known[each.call] = self._next_call
                self._calls[self._next_call] = each
                self._next_call += 1

    @property
    def _numbers(self) -> dict[AggregateCall, int]:
        return {each.call: number for number, each in self._calls.items()}

    def _new_folder(self) -> Folder:
        node, calls = self.node, list(self._calls.values())
        return Folder(node.keys, calls, node.input.schema, node.key_order)

    def remove_user(self, user: WindowsOfPanesOperator) -> None:
        self._users.remove(user)
        for part in self._parts:
            if part.remove_user(user):
                self._saved.touch(part)
        self._parts = self._saved.without_users(self._parts)
        self._holistic = [part for part in self._holistic if part.users]
        self._new = [part for part in self._new if part.users]
        if self._cells is not None:
            self._cells.parts = [part for part in self._cells.parts if part.users]

    def begin(self) -> None:
        """Start with the queries that have joined."""
        if self._begun:
            return
        self._begun, joined = True, self._users
        self._number_calls(joined)
        self._folder = self._new_folder()
        self._dead = DeadKeys(self._folder)
        by_predicate: dict[Expression | None, list[WindowsOfPanesOperator]] = {}
        for user in joined:
            by_predicate.setdefault(user.predicate, []).append(user)
        for predicate, own in by_predicate.items():
            for pane, users in common_panes(own):
                self._add_part(predicate, pane, users)
        self._unit = gcd(*(part.pane for part in self._parts))
        self._assign_cells()
        self._share_keys()

    def _assign_cells(self) -> None:
        """Parts that differ in their filters are folded together, unless what is kept of tuples
        grows with them."""
        self._new, self._cells = [], None
        parts = [part for part in self._parts if not part.holistic]
        self._holistic = [part for part in self._parts if part.holistic]
        if len({part.predicate for part in parts}) >= FEW:
            self._cells = self._cells_of(parts)

    def _cells_of(self, parts: Sequence[PanePart]) -> CellPanes:
        calls = list(self._calls)
        return CellPanes(self.node, parts, self._folder, calls, self._log, self._next_part)

    def _share_keys(self) -> None:
        """Make all parts and queries number groups alike."""
        keys = self._folder.keys
        for part in self._parts:
            part.folder.keys = keys
        for user in self._users:
            user.number_groups_by(keys)

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        self.begin()
        if batch.broken is not None:
            broke, _ = self._bound.broken(batch)
            if len(broke):
                kept = np.ones(batch.num_rows, np.bool_)
                kept[broke] = False
                yield batch.take(broke)
                batch = Batch(batch.rows.filter(pa.array(kept)))
        for ready in self._waiting.add(batch):
            self._fold(ready.rows)

    def gather(self) -> None:
        self._hand_over()
        for part in self._parts:
            part.settle()

    def _hand_over(self) -> None:
        """Hand everything that has come over to the parts."""
        self._ingest()
        self._hand_over_cells()

    def _hand_over_cells(self) -> None:
        if self._cells is not None:
            self._cells.hand_over()

    def _ingest(self) -> None:
        for batch in self._waiting.take():
            self._fold(batch.rows)

    def _fold(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        ticks = to_ticks(self._attribute(batch), self._type)
        rows = self._folder.rows(batch, ticks)
        origin, unit = self.node.origin, self._unit
        first, last = extreme_quotients(ticks, plus=-origin, by=unit)
        order: Ints | None = None
        units = np.zeros(1, np.int64)
        if first != last:
            units = floor_div(ticks, plus=-origin, by=unit) - first
            if not (units[1:] >= units[:-1]).all():
                narrow = _NARROW.get((last - first).bit_length() + 7 >> 3)
                order = np.argsort(units if narrow is None else units.astype(narrow), kind="stable")
                units, rows = units[order], rows.take(order)
        changes = np.flatnonzero(units[1:] != units[:-1]) + 1
        numbers = units[np.concatenate([[0], changes])] + first
        cuts = np.concatenate([[0], changes, [len(rows)]])
        some = SortedRows(rows, numbers, cuts)
        if self._new and (self._cells is None or len(self._new) > _NEW or len(rows) > _SMALL):
            self._hand_over_cells()
            self._assign_cells()
        for part in self._parts_for(batch, order, some):
            if part.fold(batch, order, some, unit):
                self._saved.touch(part)

    def _parts_for(
        self, batch: pa.RecordBatch, order: Ints | None, some: SortedRows
    ) -> Iterable[PanePart]:
        """Parts that a batch is folded for one by one: all others get nothing of it, or are folded
        by cell."""
        if self._cells is None:
            return self._parts
        apart = [*self._holistic, *self._new]
        if batch.num_rows <= _SMALL:
            chosen = self._cells.concerned(batch)
            if len(chosen) * _NARROW_FILTERS <= len(self._parts):
                return [*chosen, *apart]
        return apart if self._cells.fold(batch, order, some, self._unit) else self._parts

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        """Hand over complete pieces; windows end where units do, so bounds within a unit are
        skipped."""
        self.begin()
        bound = self._bound.promised(progress)
        passed: Bound = bound
        if bound not in (BEGINNING, END):
            passed = (int(bound) - self.node.origin) // self._unit
        if passed == self._passed_upto and not progress.ended:
            return
        self._passed_upto = passed
        self._ingest()
        if self._cells is not None:
            self._cells.hand_over(passed)
        self._saved.forget_panes(self._parts)
        self._dead.forget(self._mark, self._renumber)
        self._share_keys()
        yield progress

    def _mark(self, live: Mask) -> None:
        self.gather()
        for part in self._parts:
            for pane in part.panes.all():
                mark_groups(live, pane)
        for user in self._users:
            user.mark_late(live)

    def _renumber(self, codes: Codes, place: Codes) -> None:
        for part in self._parts:
            folder = part.folder

            def change(partials: Partials, folder: Folder = folder) -> Partials:
                return folder.take(partials, codes)

            part.panes.renumber(change)
            self._saved.touch(part)
        self._log.begin_anew()
        for user in self._users:
            user.renumber(codes, place)

    # --- what it holds ---------------------------------------------------------------------------

    def rows_held(self) -> int:
        return self._waiting.rows_held

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN  # they are those of the queries

    def save(self, store: ChunkStore) -> None:
        """Write the changes since the last save: to parts, or to all of them in pieces.  A few rows
        are written unfolded.  A no-op as long as others may join."""
        if not self._begun:
            return
        if not self._log.used:
            self._hand_over()
            for part in self._parts:
                self._saved.touch(part)
        self._log.forget(self._parts)
        waiting = self._waiting_rows()
        pieces = ({}, []) if self._cells is None else self._cells.pieces_to_save()
        self._folder.keys.save(store)
        self._saved.save(store, self._log.turn, self._numbers)
        self._log.save(store, *pieces)
        if waiting is not None:
            store.put("rows", waiting)
        elif self._kept_rows:
            store.drop("rows")
        self._kept_rows = waiting is not None

    def _waiting_rows(self) -> pa.RecordBatch | None:
        """Rows that wait to be folded, if they are few."""
        if self._waiting.rows_held > _FEW_ROWS:
            self._ingest()
        batches = [batch.rows for batch in self._waiting.batches]
        return pa.concat_batches(batches) if batches else None

    def load(self, store: ChunkStore) -> None:
        """Restore the state when all queries have joined."""
        parts = store.get("parts")
        if parts is not None:
            self._load_whole(store, parts)
        elif saved := saved_parts(store):
            self._load_parts(store, saved)

    def _load_parts(self, store: ChunkStore, saved: Mapping[int, Tree]) -> None:
        """Restore the parts of the queries that have joined, then the pieces that these have not
        had."""
        self._begun, named = True, {user.name: user for user in self._users}
        users = {
            number: [named[name] for name in part["users"] if name in named]
            for number, part in saved.items()
        }
        for number, part in saved.items():
            for user in users[number]:
                calls = zip(part["users"][user.name], user.node.aggregates, strict=True)
                self._calls |= dict(calls)
        self._calls = dict(sorted(self._calls.items()))  # as they had been numbered
        self._folder = self._new_folder()
        self._folder.keys.load(store)
        self._dead = DeadKeys(self._folder)
        for number, own in users.items():
            if not own:
                drop_part(store, number)
                continue
            self._next_part, pane = number, saved[number]["pane"]
            self._add_part(own[0].predicate, pane, own)
            part = self._parts[-1]
            wanted = [self._numbers[each.call] for each in part.calls]
            had = saved[number]["calls"]
            if len(own) == len(saved[number]["users"]) and wanted == had:
                self._saved.is_saved(part)  # otherwise, others may get the names that are gone
            part.turn, part.folder.keys = saved[number]["turn"], self._folder.keys
            load_panes(part, store, None if wanted == had else [*map(had.index, wanted)])
        self._next_part = max(saved) + 1
        self._unit = gcd(*(part.pane for part in self._parts))
        self._assign_cells()
        self._share_keys()
        pieces = self._log.load(store, max(part["turn"] for part in saved.values()))
        numbers = [each["calls"] for each in pieces.values()]
        numbers += [each for part in saved.values() for each in part["users"].values()]
        self._next_call = max((each for some in numbers for each in some), default=-1) + 1
        if pieces:
            back = self._cells_of([part for part in self._parts if not part.holistic])
            for turn, piece in pieces.items():
                back.take_back(piece, turn)
        rows = store.get("rows")
        if rows is not None:
            self._kept_rows = True
            self._waiting.add(Batch(rows))

    def _load_whole(self, store: ChunkStore, panes: list[int]) -> None:
        """Load the format of earlier versions: all panes of all parts, which have no names."""
        self.begin()
        if panes != [part.pane for part in self._parts]:
            raise CheckpointError(
                "the checkpoint has panes of other lengths",
                hint="run the queries that it is of, or start over with another checkpoint",
            )
        self._folder.keys.load(store)
        for part in self._parts:
            load_panes(part, store)
        store.drop("parts")
