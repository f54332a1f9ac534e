"""What travels between tasks: one binary row per bucket instead of a row per tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch
from penstock.operators.operator import Progress
from penstock.spark.tasks.reports import Reports
from penstock.state.chunks import Tree, pack, unpack

MANY_ROWS = 1 << 20  # after which a task, or a bucket, sends what it has
_MANY_BYTES = 1 << 25  # that are handed to Spark at once


class PackedKind(IntEnum):
    """What a packed row holds."""

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
    """`place` puts the messages of a micro-batch in the order in which they are to be taken, and
    `stage` is the one that a message is for; the counts are for the account of the run.  Results,
    late tuples and what a bucket says are for a `query`, by its number in the run; what tasks have
    read and rejected is for all that read the stream."""

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
        """Whether it is a message to a bucket of that stage; the stage hands on all others."""
        return self.kind == PackedKind.MESSAGE and self.stage == stage


def packed_batch(rows: Iterable[Packed]) -> pa.RecordBatch:
    given = list(rows)
    arrays = [
        pa.array([getattr(row, field.name) for row in given], field.type) for field in PACKED_ARROW
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def in_pieces(rows: Iterable[Packed], many: int = _MANY_BYTES) -> Iterator[list[Packed]]:
    """As they come, about so many bytes at a time.

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
    """Tuples, the sub-source of each (None: all of the first report) and, under SLACK, the number
    of each in it (None: high enough).  Results that are to be merged say where they belong; where
    groups are punctuated, tuples say of which group of the message they are.  `copies` are of
    tuples that go to another bucket, too, and are counted there if they are late."""

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
    """No later tuple of a group, by its values, is below its bound."""

    keys: list[pa.Array]
    bounds: Ints


@dataclass(frozen=True, slots=True)
class Message:
    """From a task or a bucket to a bucket, by the entry `entry` of its stage."""

    entry: int
    origin: int = 0  # the bucket that it comes from, if it does
    reports: Reports | None = None  # of a task, on its sub-sources
    high: Bound = BEGINNING
    rows: list[RowsPiece] = field(default_factory=list)
    panes: list[Tree] = field(default_factory=list)
    progress: Progress | None = None  # of a bucket
    joins: list[str] = field(default_factory=list)  # sub-sources that there are from now on
    leaves: list[str] = field(default_factory=list)  # sub-sources that have come to their end
    promise: int | None = None  # of a source: no later tuple is below it
    ended: bool = False
    more: bool = False  # comes from the task, with reports that go on from these
    groups: list[pa.Array] | None = None  # those of the rows, where groups are punctuated
    promised: GroupsPromised | None = None  # for groups

    def pack(self) -> bytes:
        return pack(
            {
                "entry": self.entry,
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
    """A status: that a stream has been read, up to which portion of its feed, and the last time
    that its tuples were given here."""
    return pack({"read": stream, "portions": upto, "stamped": stamped})


def pack_rows(batch: pa.RecordBatch) -> bytes:
    """Rows for the end of a pipeline, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_rows(payload: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_all()
