"""Messages between tasks and buckets: the reports of sub-sources, the work of steps, and packed
rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.grouping.key_codes import grown
from penstock.kernel.operator import Progress
from penstock.kernel.progress.sub_sources import NOTHING, BySubSource, SubSourceBounds, within_ticks
from penstock.kernel.state import Tree, pack, unpack
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, Bound, Rule

# Reports on the sub-sources of a task, as columns: there may be as many as it has rows.


@dataclass(frozen=True, slots=True)
class Moves:
    """Changes of bounds between the first row of one sub-source and that of the next, `at` which
    they are observed: a newcomer joins at the lowest bound at that moment.  With them goes the
    number of tuples that SLACK held back then.  The moves of one sub-source are in order."""

    places: Ints
    at: Ints
    bounds: Ints
    held: Ints

    @staticmethod
    def joined(parts: list[Moves]) -> Moves:
        if not parts:
            return NO_MOVES
        columns = ("places", "at", "bounds", "held")
        return Moves(*(np.concatenate([getattr(each, c) for each in parts]) for c in columns))


_NONE = np.zeros(0, np.int64)
NO_MOVES = Moves(_NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Reports:
    """The sub-sources of a task, numbered by the order of their first rows."""

    names: pa.Array
    bounds: Ints
    rows: Ints  # how many it had, or at least whether it had any
    sizes: Ints  # how many tuples SLACK holds back of each
    recent: Ints  # all of those
    moves: Moves

    def __len__(self) -> int:
        return len(self.names)

    def without_promises(self) -> Reports:
        """Copy for rows that come in no order, which name sub-sources without any bounds."""
        nothing = np.full(len(self), NOTHING)
        return replace(
            self, bounds=nothing, sizes=np.zeros(len(self), np.int64), recent=_NONE, moves=NO_MOVES
        )

    def save(self) -> Tree:
        columns = [self.names, self.bounds, self.rows, self.sizes, self.recent]
        return [*columns, list(astuple(self.moves))]

    @staticmethod
    def load(saved: Tree) -> Reports:
        names, bounds, rows, sizes, recent, moves = saved
        return Reports(names, bounds, rows, sizes, recent, Moves(*moves))


# The progress of sub-sources, as far as the rows of one task tell it.
#
# A task does not know the bounds that had been promised before its micro-batch.  It reports enough
# for the buckets, which do (see `stateful/registers.py`), to find the bound before every one of its
# rows: the higher one of the bound before the micro-batch and that of the rows before it in the
# same task.


class TaskBounds(SubSourceBounds):
    """Bounds that start from nothing in every task.  Sub-sources are numbered in the order of their
    first rows: these numbers are their places in the report."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.places: Ints | None = None  # the sub-sources of the tuples that came last
        self.place = 0  # the one of all of them, if there are no places
        self.numbers: Ints | None = None  # under SLACK: their numbers in their sub-sources
        self._known = 0
        self._place_of: Ints = np.zeros(0, np.int64)  # by their numbers elsewhere, −1 without one
        self._codes: list[Codes] = []  # those, by place
        self._placed = 0  # how many
        self._rows: Ints = np.zeros(0, np.int64)
        self._moved: Mask = np.zeros(0, np.bool_)  # those that moved since the last newcomer came
        self._moves: list[Moves] = []

    def before(self, codes: Codes, ticks: Ints, promised: Ints | None) -> Ints:
        places = self._places(codes)
        self.places = places if promised is None else places[ticks != NOTHING]
        return super().before(places, ticks, promised)

    def before_of(self, code: int, ticks: Ints, promised: Ints | None) -> Ints:
        if len(ticks) == 0:
            return ticks
        self.places, self.place = None, int(self._places(np.array([code]))[0])
        return super().before_of(self.place, ticks, promised)

    def kept_by(self, code: int, lowest: int, highest: int) -> bool:
        place = int(self._place_of[code]) if code < len(self._place_of) else -1
        if place < 0 or not super().kept_by(place, lowest, highest):
            return False
        self.places, self.place = None, place
        self._rows[place] += 1  # that it had a row is enough
        return True

    def knows(self, code: int) -> bool:
        return code < self._known

    def _places(self, codes: Codes) -> Ints:
        """Places of sub-sources in the report, by their numbers elsewhere; newcomers are put at the
        end."""
        self._place_of = grown(self._place_of, int(codes.max(initial=-1)) + 1, -1)
        places = self._place_of[codes]
        new = codes[places < 0]
        if len(new):
            first = np.empty(len(self._place_of), np.int64)
            first[new[::-1]] = np.arange(len(new))[::-1]
            new = new[first[new] == np.arange(len(new))]
            self._place_of[new] = self._placed + np.arange(len(new))
            self._placed += len(new)
            self._codes.append(new)
            places = self._place_of[codes]
        return places

    def _move_one(self, code: int, bound: int) -> None:
        self._bounds[code] = within_ticks(bound)
        self._moved[code] = True

    def _reserve(self, size: int) -> None:
        super()._reserve(size)
        self._rows = grown(self._rows, size, 0)
        self._moved = grown(self._moved, size, False)

    def _before(self, rows: BySubSource, ticks: Ints, promised: Ints | None) -> Ints:
        size = int(rows.codes[-1]) + 1
        self._reserve(size)
        held = self._held.counts(rows.codes) if self._held is not None else None
        if self._held is not None:
            numbers = rows.spread(self._rows[rows.codes]) + rows.ranks
            self.numbers = rows.restored(numbers)
        after = self._contributions(rows, ticks, promised)
        before, reached = rows.highest_before(self._bounds[rows.codes], after)
        self._note_moves(rows, before, reached, held)
        self._bounds[rows.codes] = reached
        self._rows[rows.codes] += rows.sizes
        self._known = max(self._known, size)
        return before

    def _note_moves(
        self, rows: BySubSource, before: Ints, reached: Ints, held: Ints | None
    ) -> None:
        """Record moves, and newcomers.  Every sub-source is a newcomer to the task; buckets know
        whether it is new to the source."""
        new = rows.codes >= self._known
        newcomers = int(np.count_nonzero(new))
        if newcomers:
            self._flush_moves()
        joins = np.zeros(len(before), np.int64)
        joins[rows.order[rows.begins[new]]] = 1
        come = np.cumsum(joins)[rows.order]  # how many have come up to each row, itself included
        after = rows.next_in_each(before, reached)
        of_rows = rows.spread(rows.codes)
        moves = after > before
        held_after = np.zeros(len(before), np.int64)
        if held is not None and self._held is not None:
            held_before = rows.spread(held) + rows.ranks
            held_after = np.minimum(held_before + 1, self._held.slack)
            moves |= held_before < self._held.slack
        self._moved[of_rows[moves & (come == newcomers)]] = True
        seen = np.flatnonzero(moves & (come < newcomers))
        self._add_moves(of_rows[seen], self._known + come[seen], after[seen], held_after[seen])

    def _add_moves(self, places: Ints, at: Ints, bounds: Ints, held: Ints) -> None:
        """Record the last move of each sub-source before each newcomer."""
        if len(places):
            last = np.append((places[1:] != places[:-1]) | (at[1:] != at[:-1]), True)
            self._moves.append(Moves(places[last], at[last], bounds[last], held[last]))

    def _flush_moves(self) -> None:
        """Record the moves since the last newcomer came, as the next one finds them."""
        moved = np.flatnonzero(self._moved[: self._known])
        if len(moved):
            zeros = np.zeros(len(moved), np.int64)
            held = self._held.counts(moved) if self._held is not None else zeros
            at = np.full(len(moved), self._known)
            self._add_moves(moved, at, self._bounds[moved], held)
            self._moved[moved] = False

    def reports(self, names: pa.Array) -> Reports:
        """Report on sub-sources, with their names in the order of first appearance."""
        places = np.arange(self._known)
        sizes, recent = self._recent(places)
        moves = Moves.joined(self._moves)
        return Reports(names, self._bounds[places], self._rows[places], sizes, recent, moves)

    @property
    def codes(self) -> Codes:
        """Numbers of the sub-sources elsewhere, in the order of first appearance."""
        return np.concatenate([np.zeros(0, np.int64), *self._codes])


# The work of stateless steps in tasks and buckets, for EXPLAIN ANALYZE.

FOLDING = -1  # the step that folds tuples into panes, behind all others
SHUFFLE = -2  # the input of a stage: messages, and their bytes


class StepName(NamedTuple):
    """A step of a path to a stage, or, with stage 0, of a path to the end."""

    stage: int
    path: int
    step: int


@dataclass(slots=True)
class StepWork:
    """Rows in and out of a step, and its time."""

    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0

    def add(self, other: StepWork) -> None:
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.nanoseconds += other.nanoseconds


def work_done(work: Iterable[tuple[StepName, StepWork]]) -> bytes:
    """Pack a status with the work of steps."""
    done = [[*name, each.rows_in, each.rows_out, each.nanoseconds] for name, each in work]
    return pack({"work": done})


def add_work(saved: Tree, to: dict[StepName, StepWork]) -> None:
    for stage, path, step, *counts in saved:
        to.setdefault(StepName(stage, path, step), StepWork()).add(StepWork(*counts))


# Packed rows, which travel between tasks: one binary row per bucket instead of a row per tuple.

MANY_ROWS = 1 << 20  # after which a task, or a bucket, sends what it has
_MANY_BYTES = 1 << 25  # that are handed to Spark at once


class PackedKind(IntEnum):
    """Kind of a packed row."""

    MESSAGE = 0  # to a bucket of a stage
    ROWS = 1  # results
    LATE = 2  # tuples that missed windows
    REJECTED = 3  # rows that could not take part
    STATUS = 4  # how a bucket is doing


PACKED = (
    "bucket int, kind int, place bigint, payload binary, read bigint, late bigint, rejected bigint,"
    " stage int, query int"
)
PACKED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("place", pa.int64()),
        ("payload", pa.binary()),
        ("read", pa.int64()),
        ("late", pa.int64()),
        ("rejected", pa.int64()),
        ("stage", pa.int32()),
        ("query", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed row.  `place` orders the messages of a micro-batch, and `stage` is the one that a
    message is for; the counts are for the account of the run.  Results, late tuples and the status
    of a bucket are for a `query`, by its number in the run; counts of rows read and rejected by
    tasks are for all queries that read the stream."""

    bucket: int
    kind: PackedKind
    payload: bytes = b""
    place: int = 0
    read: int = 0
    late: int = 0
    rejected: int = 0
    stage: int = 0
    query: int = 0

    def is_for(self, stage: int) -> bool:
        """Whether this is a message to a bucket of a stage; the stage forwards all others."""
        return self.kind == PackedKind.MESSAGE and self.stage == stage


def packed_batch(rows: Iterable[Packed]) -> pa.RecordBatch:
    given = list(rows)
    arrays = [
        pa.array([getattr(row, field.name) for row in given], field.type) for field in PACKED_ARROW
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def in_pieces(rows: Iterable[Packed], many: int = _MANY_BYTES) -> Iterator[list[Packed]]:
    """Group rows in order, about so many bytes at a time.

    >>> rows = [Packed(0, PackedKind.ROWS, payload) for payload in (b"ab", b"cd", b"e")]
    >>> [[row.payload for row in piece] for piece in in_pieces(rows, many=4)]
    [[b'ab', b'cd'], [b'e']]
    """
    piece: list[Packed] = []
    size = 0
    for row in rows:
        if size >= many:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += len(row.payload)
    if piece:
        yield piece


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Tuples, with the sub-source of each (None: all of the first report) and, under SLACK, the
    number of each in it (None: high enough).  Results that are to be merged have the columns they
    are sorted by; where groups are punctuated, tuples have the number of their group in the
    message.  `copies` are of tuples that go to another bucket, too, and are counted there if they
    are late."""

    batch: Batch
    order: pa.RecordBatch | None = None
    groups: Ints | None = None
    copies: bool = False

    def save(self) -> Tree:
        batch = self.batch
        broken = None if batch.broken is None else dict(batch.broken)
        beside = [batch.signs, broken, batch.places, batch.numbers, batch.lineage]
        return [batch.rows, *beside, self.order, self.groups, self.copies]

    @staticmethod
    def load(saved: Tree) -> RowsPiece:
        *of_batch, order, groups, copies = saved
        return RowsPiece(Batch(*of_batch), order, groups, copies)


class GroupsPromised(NamedTuple):
    """Bounds of groups, by their values: no later tuple of a group is below its bound."""

    keys: list[pa.Array]
    bounds: Ints


@dataclass(frozen=True, slots=True)
class Message:
    """Message from a task or a bucket to a bucket, for one `path` of its stage."""

    path: int
    origin: int = 0  # the bucket that it comes from, if it does
    reports: Reports | None = None  # of a task, on its sub-sources
    high: Bound = BEGINNING
    rows: list[RowsPiece] = field(default_factory=list)
    panes: list[Tree] = field(default_factory=list)
    progress: Progress | None = None  # of a bucket
    joins: list[str] = field(default_factory=list)  # new sub-sources
    leaves: list[str] = field(default_factory=list)  # sub-sources that have come to their end
    promise: int | None = None  # of a source: no later tuple is below it
    ended: bool = False
    more: bool = False  # comes from the task, with reports that go on from these
    groups: list[pa.Array] | None = None  # those of the rows, where groups are punctuated
    promised: GroupsPromised | None = None  # for groups

    def pack(self) -> bytes:
        return pack(
            {
                "entry": self.path,
                "origin": self.origin,
                "reports": self.reports.save() if self.reports is not None else None,
                "high": self.high,
                "rows": [piece.save() for piece in self.rows],
                "panes": self.panes,
                "progress": self.progress.save() if self.progress is not None else None,
                "joins": self.joins,
                "leaves": self.leaves,
                "promise": self.promise,
                "ended": self.ended,
                "more": self.more,
                "groups": self.groups,
                "promised": self.promised,
            }
        )

    @staticmethod
    def unpack(payload: bytes) -> Message:
        tree = unpack(payload)
        progress, promised = tree["progress"], tree["promised"]
        return Message(
            tree["entry"],
            tree["origin"],
            Reports.load(tree["reports"]) if tree["reports"] is not None else None,
            tree["high"],
            [RowsPiece.load(piece) for piece in tree["rows"]],
            tree["panes"],
            Progress.load(progress) if progress is not None else None,
            tree["joins"],
            tree["leaves"],
            tree["promise"],
            tree["ended"],
            tree["more"],
            tree["groups"],
            GroupsPromised(*promised) if promised is not None else None,
        )


def stream_read(stream: str, upto: int, stamped: int | None = None) -> bytes:
    """Pack a status: a stream has been read, up to a portion of its feed, and the last time that
    its tuples were given here."""
    return pack({"read": stream, "portions": upto, "stamped": stamped})


def pack_rows(batch: pa.RecordBatch) -> bytes:
    """Pack rows for the end of a pipeline, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_rows(payload: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_all()
