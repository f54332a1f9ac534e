"""Session windows: rows cut into sessions on whole columns, the open sessions that they are merged
with, and the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import from_ticks
from penstock.kernel.grouping.folding import DeadKeys, Folder, Rows, united
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.groups.group_by import InTime, as_batch
from penstock.kernel.operator import Base, Item, OpenResults, Progress, at_once
from penstock.kernel.state import ChunkStore, required
from penstock.kernel.windows.counted_rows import Waiting
from penstock.model.arrays import (
    Codes,
    Ints,
    Mask,
    exceeds_by_at_most,
    plus,
    stable_order,
    stable_order_by,
)
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.window_kinds import Session

_BITS = 62


# From ticks of groups to sessions, and from sessions that touch to one: on whole columns.  Rows and
# sessions are in the order of group and tick here.


class Sessions(NamedTuple):
    """Sessions as columns: group, first tick and last tick of each."""

    groups: Codes
    firsts: Ints
    lasts: Ints

    def __len__(self) -> int:
        return len(self.groups)


def in_order(groups: Codes, ticks: Ints) -> Ints | None:
    """Order of rows by group and tick; None if they are in that order."""
    if len(groups) < 2:
        return None
    rising = ticks[1:] >= ticks[:-1]
    if ((groups[1:] > groups[:-1]) | ((groups[1:] == groups[:-1]) & rising)).all():
        return None
    places = _group_and_tick(groups, ticks)
    return stable_order_by(groups, ticks) if places is None else stable_order(places)


def _group_and_tick(groups: Codes, ticks: Ints) -> Ints | None:
    """Group and tick as one number; None if that would be too large."""
    lowest = int(ticks.min())
    bits = (int(ticks.max()) - lowest).bit_length()
    if bits + int(groups.max()).bit_length() > _BITS:
        return None
    places: Ints = (groups << bits) | (ticks - lowest)
    return places


def cut(groups: Codes, ticks: Ints, gap: int) -> Mask:
    """Mask of the rows that begin a session: those that come GAP or more after the one before.

    >>> cut(np.array([0, 0, 0, 1]), np.array([5, 8, 12, 12]), gap=4).tolist()
    [True, False, True, True]
    """
    begins = np.ones(len(groups), np.bool_)
    begins[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] >= ticks[:-1] + gap)
    return begins


def cut_long(begins: Mask, starts: Ints, ticks: Ints, longest: int) -> Mask:
    """Mask of the rows that begin a session where none may be longer than MAX: a row that comes so
    long after the first of its session begins another.  `starts` has the first tick of each session
    that `begins` marks, which may have begun before these rows.

    >>> ticks = np.array([5, 7, 9, 12])
    >>> cut_long(np.array([True, False, False, False]), np.array([4]), ticks, longest=4).tolist()
    [True, False, True, False]
    """
    found = begins.copy()
    places = np.flatnonzero(begins)
    ends = np.append(places[1:], len(ticks))
    too_long = np.flatnonzero(~exceeds_by_at_most(ticks[ends - 1], starts, longest - 1))
    for begin, end, start in zip(
        places[too_long].tolist(), ends[too_long].tolist(), starts[too_long].tolist(), strict=True
    ):
        at = begin + int(ticks[begin:end].searchsorted(start + longest))
        while at < end:
            found[at] = True
            at += int(ticks[at:end].searchsorted(int(ticks[at]) + longest))
    return found


def first_place(low: Ints, high: Ints, holds: Callable[[Ints, Ints], Mask]) -> Ints:
    """Bisect stretches of places: for each, the first place at which a condition holds, that holds
    from there on; its end, if it never does.  `holds` is called with places and their stretches."""
    low, high = low.copy(), high.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        found = holds(middle, open_)
        high[open_[found]] = middle[found]
        low[open_[~found]] = middle[~found] + 1
        open_ = open_[low[open_] < high[open_]]
    return low


def touching(items: Sessions, gap: int) -> Mask:
    """Mask of the sessions that do not touch those before them; sessions less than GAP apart touch.

    >>> items = Sessions(np.array([0, 0, 0, 0]), np.array([1, 2, 8, 20]), np.array([9, 3, 12, 20]))
    >>> touching(items, gap=5).tolist()
    [True, False, False, True]
    """
    begins = np.ones(len(items), np.bool_)
    if len(items) > 1:
        reached = _highest_so_far(items.groups, items.lasts)
        apart = items.firsts[1:] >= reached[:-1] + gap
        begins[1:] = (items.groups[1:] != items.groups[:-1]) | apart
    return begins


def _highest_so_far(groups: Codes, values: Ints) -> Ints:
    """The running maximum of every group."""
    places = _group_and_tick(groups, values)
    order = stable_order(values if places is None else places)
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    if places is None:
        ranks += np.cumsum(np.diff(groups, prepend=groups[0]) != 0) * len(values)
    highest = np.maximum.accumulate(ranks) % len(values)
    found: Ints = values[order[highest]]
    return found


# Open sessions: the first and last tick of each, and its partial result.
#
# Sessions have numbers, and everything about them is an array indexed by these.  Tuples that come
# between two sessions merge them: the later is *absorbed*, its partial result stays in place and is
# merged when the session leaves, or when so many are absorbed that all are numbered again.

_FEW = 1024  # numbers that are not worth giving up
_BLOCK = 1024  # sessions that are saved together
_NO_SESSION = -1


class Changed(NamedTuple):
    """Sessions that tuples were added to, and those that have been absorbed."""

    sessions: Ints
    absorbed: Ints


class OpenSessions:
    """Open sessions by number, and their order by group and begin."""

    def __init__(self, folder: Folder, window: Session) -> None:
        self._folder = folder
        self._window = window
        self._gap = window.shortest
        self._count = 0  # numbers that have been given
        self.groups: Codes = np.zeros(0, np.int64)
        self.starts: Ints = np.zeros(0, np.int64)
        self.lasts: Ints = np.zeros(0, np.int64)
        self._owners: Ints = np.zeros(
            0, np.int64
        )  # itself, the one that absorbed it, or none: dropped
        self._partials = folder.new()
        self._absorbed: Ints = np.zeros(0, np.int64)
        # numbers in the order of group and time; what is gone stays for a while, and is before all
        # others of its group
        self._order: Ints = np.zeros(0, np.int64)
        self._groups_in_order: Codes = np.zeros(0, np.int64)
        self._gone = 0
        self.lowest: Bound = END  # no session ends before it that has not been found to
        self._touched: set[int] = set()  # blocks, since the last save
        self._blocks = 0  # that a store may have

    def __len__(self) -> int:
        return self._count - self._gone - len(self._absorbed)

    # --- tuples ----------------------------------------------------------------------------------

    def take_in(self, rows: Rows) -> Changed:
        """Fold tuples in any order, by the groups and ticks of rows."""
        order = in_order(rows.codes, rows.positions)
        rows = rows if order is None else rows.take(order)
        begins = cut(rows.codes, rows.positions, self._gap)
        found, of_rows = _sessions(rows, begins)
        changed, numbers = self._merged(found)
        self._fold(rows, numbers[of_rows])
        return changed

    def follow(self, rows: Rows) -> None:
        """Fold tuples that come after all others of their groups, where sessions may have to end
        before they do: by MAX."""
        assert self._window.longest is not None
        order = in_order(rows.codes, rows.positions)
        rows = rows if order is None else rows.take(order)
        groups, ticks = rows.codes, rows.positions
        begins = cut(groups, ticks, self._gap)
        heads = np.flatnonzero(begins)
        starts = ticks[heads]
        # the first tuples of a group may go on with its latest session
        first = np.flatnonzero(np.diff(groups[heads], prepend=-1))
        latest = self._latest(groups[heads[first]])
        known = np.flatnonzero(latest != _NO_SESSION)
        known = known[ticks[heads[first[known]]] < self.ends(latest[known])]
        first, latest = first[known], latest[known]
        starts[first] = self.starts[latest]
        found, of_rows = _sessions(rows, cut_long(begins, starts, ticks, self._window.longest))
        numbers = np.full(len(found), _NO_SESSION)
        old = of_rows[heads[first]]
        numbers[old] = latest
        self.lasts[latest] = found.lasts[old]
        fresh = numbers == _NO_SESSION
        made = Sessions(*(each[fresh] for each in found))
        numbers[fresh] = self._open(made, self._groups_in_order.searchsorted(made.groups, "right"))
        self._mark_changed(numbers)
        self._fold(rows, numbers[of_rows])

    def _latest(self, groups: Codes) -> Ints:
        """The latest session of each group, if it is open."""
        found = np.full(len(groups), _NO_SESSION)
        ends = self._groups_in_order.searchsorted(groups, "right")
        some = np.flatnonzero(ends > 0)
        numbers = self._order[ends[some] - 1]
        own = (self.groups[numbers] == groups[some]) & (self._owners[numbers] == numbers)
        found[some[own]] = numbers[own]
        return found

    def _touching_open(self, found: Sessions) -> tuple[Ints, Ints]:
        """Stretch, in the order, of the open sessions that touch each of some others: begin and
        end."""
        low = self._groups_in_order.searchsorted(found.groups)
        high = self._groups_in_order.searchsorted(found.groups, "right")
        order, gap = self._order, self._gap
        low = first_place(
            low, high, lambda at, which: self.lasts[order[at]] + gap > found.firsts[which]
        )
        high = first_place(
            low, high, lambda at, which: self.starts[order[at]] >= found.lasts[which] + gap
        )
        return low, high

    def _merged(self, found: Sessions) -> tuple[Changed, Ints]:
        """Merge sessions with the open ones that they touch; return the number that each has
        now."""
        low, high = self._touching_open(found)
        touching_one = high - low == 1
        own = low[touching_one]
        if (high - low <= 1).all() and (own[1:] > own[:-1]).all():  # so it is with most of them
            numbers = np.full(len(found), _NO_SESSION)
            numbers[touching_one] = old = self._order[own]
            self.starts[old] = np.minimum(self.starts[old], found.firsts[touching_one])
            self.lasts[old] = np.maximum(self.lasts[old], found.lasts[touching_one])
            made = Sessions(*(each[~touching_one] for each in found))
            numbers[~touching_one] = self._open(made, low[~touching_one])
            self._mark_changed(numbers)
            return Changed(numbers, numbers[:0]), numbers
        near = self._order[_all_places(low, high)]
        items = Sessions(
            np.concatenate([self.groups[near], found.groups]),
            np.concatenate([self.starts[near], found.firsts]),
            np.concatenate([self.lasts[near], found.lasts]),
        )
        known = np.concatenate([near, np.full(len(found), _NO_SESSION)])
        changed, of_items = self._united(items, known, low)
        return changed, changed.sessions[of_items[len(near) :]]

    def _united(self, items: Sessions, known: Ints, places: Ints) -> tuple[Changed, Ints]:
        """Merge items that touch into sessions: return these, and the session that each item is in.
        Items with a number are open; the others are in order, and `places` says where they belong
        among the open ones."""
        order = in_order(items.groups, items.firsts)
        order = np.arange(len(items)) if order is None else order
        items, known = Sessions(*(each[order] for each in items)), known[order]
        begins = touching(items, self._gap)
        heads = np.flatnonzero(begins)
        of_sorted = np.cumsum(begins) - 1
        lasts = np.maximum.reduceat(items.lasts, heads)
        open_ = np.flatnonzero(known != _NO_SESSION)
        numbers = np.full(len(heads), _NO_SESSION)
        numbers[of_sorted[open_[::-1]]] = known[open_[::-1]]  # the earliest of each stays
        old = numbers != _NO_SESSION
        self.starts[numbers[old]] = items.firsts[heads[old]]
        self.lasts[numbers[old]] = lasts[old]
        into = numbers[of_sorted[open_]]
        goes = known[open_] != into
        absorbed, into = known[open_][goes], into[goes]
        # a session that touches no open one stands for itself
        fresh = heads[~old]
        own_places = places[order[fresh] - len(open_)]
        made = Sessions(items.groups[fresh], items.firsts[fresh], lasts[~old])
        numbers[~old] = self._open(made, own_places)
        self._mark_changed(numbers)
        if len(absorbed):
            self._absorb(absorbed, into)
        of_items = np.empty(len(order), np.int64)
        of_items[order] = of_sorted
        return Changed(numbers, absorbed), of_items

    def _open(self, made: Sessions, places: Ints) -> Ints:
        """Number new sessions, that belong to places in the order."""
        numbers = np.arange(self._count, self._count + len(made))
        if len(made) == 0:
            return numbers
        self._count += len(made)
        self.groups, self.starts, self.lasts, self._owners = (
            grown(each, self._count, 0)
            for each in (self.groups, self.starts, self.lasts, self._owners)
        )
        self.groups[numbers], self.starts[numbers] = made.groups, made.firsts
        self.lasts[numbers], self._owners[numbers] = made.lasts, numbers
        self._order = np.insert(self._order, places, numbers)
        self._groups_in_order = np.insert(self._groups_in_order, places, made.groups)
        return numbers

    def _absorb(self, absorbed: Ints, into: Ints) -> None:
        self._owners[absorbed] = into
        self._absorbed = np.concatenate([self._absorbed, absorbed])
        self._owners[self._absorbed] = self._owners[self._owners[self._absorbed]]
        self._touch(self._absorbed)
        stays = np.ones(self._count, np.bool_)
        stays[absorbed] = False
        left = stays[self._order]
        self._order, self._groups_in_order = self._order[left], self._groups_in_order[left]

    def _fold(self, rows: Rows, numbers: Ints) -> None:
        self._folder.fold_apart(self._partials, replace(rows, codes=numbers), self._count)

    def _mark_changed(self, numbers: Ints) -> None:
        """Register sessions that have changed."""
        self._touch(numbers)
        self.lowest = min(self.lowest, int(self.ends(numbers).min()))

    # --- leaving ---------------------------------------------------------------------------------

    def ends(self, numbers: Ints) -> Ints:
        ends: Ints = self.lasts[numbers] + self._gap
        if self._window.longest is None:
            return ends
        return np.minimum(ends, plus(self.starts[numbers], self._window.longest))

    def ended(self, bound: Bound) -> Ints:
        """The sessions that end at or below a bound."""
        if bound == BEGINNING:
            return np.zeros(0, np.int64)
        open_ = self._open_ones()
        ends = self.ends(open_)
        passed = np.ones(len(open_), np.bool_) if bound == END else ends <= int(bound)
        left = ends[~passed]
        self.lowest = int(left.min()) if len(left) else END
        return open_[passed]

    def leaving(self, numbers: Ints) -> Ints:
        """Order in which sessions leave: by end, then by their keys."""
        by_key = self._folder.keys.order_of(self.groups[numbers])
        order: Ints = by_key[stable_order(self.ends(numbers)[by_key])]
        return order

    def ending_above(self, bound: Bound) -> int:
        """Number of sessions that end above a bound."""
        if bound in (BEGINNING, END):
            return len(self) if bound == BEGINNING else 0
        return int(np.count_nonzero(self.ends(self._open_ones()) > int(bound)))

    def _open_ones(self) -> Ints:
        return np.flatnonzero(self._owners[: self._count] == np.arange(self._count))

    def results(self, numbers: Ints) -> list[pa.Array]:
        """The keys and results of some sessions."""
        partials, codes = self._partials, numbers
        parts, wholes = self._parts(numbers)
        if len(parts) > len(numbers):
            partials, codes = united(self._folder, partials, parts, wholes), np.arange(len(numbers))
        keys = self._folder.keys.take(self.groups[numbers])
        return [*keys, *self._folder.results(partials, codes)]

    def _parts(self, numbers: Ints) -> tuple[Codes, Ints]:
        """The parts of sessions, and the place in `numbers` of the session that each belongs to."""
        places = np.arange(len(numbers))
        if len(self._absorbed) == 0:
            return numbers, places
        place = np.full(self._count, _NO_SESSION)
        place[numbers] = places
        owned = place[self._owners[self._absorbed]]
        some = owned != _NO_SESSION
        parts = np.concatenate([numbers, self._absorbed[some]])
        wholes = np.concatenate([places, owned[some]])
        order = stable_order(wholes)
        return parts[order], wholes[order]

    def drop(self, numbers: Ints) -> None:
        """Drop sessions, which no later tuple touches."""
        if len(numbers) == 0:
            return
        parts, _ = self._parts(numbers)
        self._touch(parts)
        self._owners[parts] = _NO_SESSION
        self._absorbed = self._absorbed[self._owners[self._absorbed] != _NO_SESSION]
        self._gone += len(parts)

    def tidy(self) -> Ints | None:
        """Renumber the sessions if most numbers are unused; return the new number of each old one,
        or None."""
        many = self._count > _FEW and self._count > 2 * len(self)
        return self.renumber_all() if many else None

    def renumber_all(self) -> Ints:
        """Number only open sessions, in the same order; absorbed sessions are merged for good."""
        kept = self._open_ones()
        place = np.full(self._count, _NO_SESSION)
        place[kept] = np.arange(len(kept))
        parts, wholes = self._parts(kept)
        self._partials = united(self._folder, self._partials, parts, wholes)
        self.groups, self.starts = self.groups[kept], self.starts[kept]
        self.lasts, self._owners = self.lasts[kept], np.arange(len(kept))
        order = place[self._order]
        self._order = order[order != _NO_SESSION]
        self._groups_in_order = self.groups[self._order]
        self._absorbed = np.zeros(0, np.int64)
        self._gone, self._count = 0, len(kept)
        self._touched = set(range(-(-self._count // _BLOCK)))
        return place

    def mark(self, live: Mask) -> None:
        """Mark the groups that have a session."""
        live[self.groups[self._open_ones()]] = True

    def renumber(self, groups: Codes) -> Ints:
        """Replace the codes of groups, which keep their order, and number sessions again."""
        place = self.renumber_all()
        self.groups = groups[self.groups]
        self._groups_in_order = self.groups[self._order]
        return place

    # --- state -----------------------------------------------------------------------------------

    def _touch(self, numbers: Ints) -> None:
        self._touched.update(np.flatnonzero(np.bincount(numbers // _BLOCK)).tolist())

    def save(self, store: ChunkStore) -> None:
        blocks = -(-self._count // _BLOCK)
        for block in sorted(self._touched):
            every = np.arange(block * _BLOCK, min(self._count, (block + 1) * _BLOCK))
            kept = every[self._owners[every] != _NO_SESSION]
            if len(kept) == 0:
                store.drop(f"sessions/{block}")
                continue
            partials = self._folder.take_apart(self._partials, kept)
            saved = {
                "groups": self.groups[kept],
                "starts": self.starts[kept],
                "lasts": self.lasts[kept],
                "owners": self._owners[kept],
                "partials": self._folder.save(partials, kept),
            }
            store.put(f"sessions/{block}", saved)
        for block in range(blocks, self._blocks):
            store.drop(f"sessions/{block}")
        self._touched, self._blocks = set(), blocks
        store.put("sessions", {"count": self._count})

    def load(self, store: ChunkStore) -> None:
        self._count = required(store, "sessions")["count"]
        self._blocks = -(-self._count // _BLOCK)
        self.groups, self.starts, self.lasts = (np.zeros(self._count, np.int64) for _ in range(3))
        self._owners = np.full(self._count, _NO_SESSION)
        self._folder.grow_to(self._partials, self._count)
        for block in range(self._blocks):
            saved = store.get(f"sessions/{block}")
            if saved is None:
                continue
            kept, partials = self._folder.load_apart(saved["partials"])
            self.groups[kept], self.starts[kept] = saved["groups"], saved["starts"]
            self.lasts[kept], self._owners[kept] = saved["lasts"], saved["owners"]
            wide = self._folder.spread_apart(partials, kept, self._count)
            self._folder.merge_apart(self._partials, wide)
        open_ = self._open_ones()
        every = np.arange(self._count)
        self._gone = int(np.count_nonzero(self._owners == _NO_SESSION))
        self._absorbed = np.flatnonzero((self._owners != every) & (self._owners != _NO_SESSION))
        self._order = open_[stable_order_by(self.groups[open_], self.starts[open_])]
        self._groups_in_order = self.groups[self._order]
        self.lowest = int(self.ends(open_).min()) if len(open_) else END


def _sessions(rows: Rows, begins: Mask) -> tuple[Sessions, Ints]:
    """The sessions of rows, and which one each row is in."""
    heads = np.flatnonzero(begins)
    tails = np.append(heads[1:], len(rows)) - 1
    found = Sessions(rows.codes[heads], rows.positions[heads], rows.positions[tails])
    return found, np.cumsum(begins) - 1


def _all_places(low: Ints, high: Ints) -> Ints:
    """All places of some stretches, each once; neither their begins nor their ends ever fall.

    >>> _all_places(np.array([0, 2, 5]), np.array([3, 4, 5])).tolist()
    [0, 1, 2, 3]
    """
    low = np.maximum(low, np.append(0, high[:-1]))
    counts = np.maximum(high - low, 0)
    begins = np.cumsum(counts) - counts
    places: Ints = np.arange(int(counts.sum())) + np.repeat(low - begins, counts)
    return places


# Session windows: tuples are folded into the sessions of their group as they come.
#
# A batch is cut into sessions of its own, and these are merged with the open ones that they touch.
# A session leaves when the bound has passed its end.  Where MAX cuts sessions, every cut depends on
# the one before it, so tuples wait until the bound has passed them, and then come in order.


class SessionOperator(Base):
    """Session windows: merge each batch with the open sessions, and emit those that end at or below
    the bound."""

    def __init__(self, node: WindowAggregate) -> None:
        assert isinstance(node.window, Session)
        assert node.attribute is not None
        self.node = node
        self._id_type = node.schema.fields[0].type
        self._in_time = InTime([node.attribute], node.input)
        self.folder = Folder(node.keys, node.aggregates, node.input.schema, node.key_order)
        self.sessions = OpenSessions(self.folder, node.window)
        self._waiting = Waiting() if node.window.longest is not None else None
        self._dead = DeadKeys(self.folder)
        self.high: Bound = BEGINNING  # the latest end of a session that has left

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        given, (ticks,), late = self._in_time.split(batch, self._id_type)
        yield from late
        if given.num_rows == 0:
            return
        if self._waiting is not None:
            self._waiting.add(given, ticks)
        else:
            self.sessions.take_in(self.folder.rows(given, ticks))

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        (bound,) = self._in_time.promised(progress)
        if self._waiting is not None:
            passed = self._waiting.below(bound)
            if passed is not None:
                self.sessions.follow(self.folder.rows(*passed))
        if bound >= self.sessions.lowest:
            yield from self._release(self.sessions.ended(bound))
        yield promised(bound, self.high, progress.ended)

    def _release(self, numbers: Ints) -> Iterator[Item]:
        if len(numbers):
            self.high = max(self.high, int(self.sessions.ends(numbers).max()))
            in_order = numbers[self.sessions.leaving(numbers)]
            yield Batch(session_rows(self.node, self.sessions, in_order))
            self.sessions.drop(numbers)
            self.sessions.tidy()
            self._dead.forget(self.sessions.mark, self._renumber)

    def rows_held(self) -> int:
        return 0 if self._waiting is None else self._waiting.rows

    def open_results(self) -> OpenResults:
        """Open sessions, and tuples that wait, whose sessions have not been counted yet."""
        return OpenResults(others=len(self.sessions) + self.rows_held())

    def _renumber(self, codes: Codes, place: Codes) -> None:  # noqa: ARG002
        self.sessions.renumber(place)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self.sessions.save(store)
        if self._waiting is not None:
            self._waiting.save(store)
        store.put("run", {"high": self.high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self.folder.keys.load(store)
        self.sessions.load(store)
        if self._waiting is not None:
            self._waiting.load(store)
        self.high = saved["high"]


def session_rows(node: WindowAggregate, sessions: OpenSessions, numbers: Ints) -> pa.RecordBatch:
    """The results of some sessions."""
    bounds = sessions.starts[numbers], sessions.ends(numbers)
    start, end = (from_ticks(each, node.bound_type) for each in bounds)
    return as_batch([start, start, end, *sessions.results(numbers)], node.schema.arrow)


def promised(bound: Bound, high: Bound, ended: bool) -> Progress:
    """Progress of results: sessions that have not left end above the bound."""
    reached: dict[str, Bound] = {} if high == BEGINNING else {"window_end": high}
    if ended or bound == BEGINNING:
        return Progress({}, reached, ended)
    return Progress({"window_end": min(int(bound) + 1, INT64_MAX)}, reached)
