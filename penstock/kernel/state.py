"""State as chunks: named pieces of plain values and arrays, of which a host saves those that have
changed; logs of waiting tuples, and state cut into slices of time.

A chunk is a tree of dictionaries and lists with numbers, texts, NumPy and Arrow arrays as leaves.
Packed, it is a version, a description in JSON and the buffers of the arrays: nothing in it is ever
executed when it is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.kernel.batch import taken_rows
from penstock.model.arrays import Ints, different
from penstock.model.punctuation import BEGINNING, END, Bound

Tree: TypeAlias = Any  # dict[str, Tree] | list[Tree] | plain value | np.ndarray | pa.Array | …

FORMAT = 6
_MAGIC = b"PSC"
_HEAD = struct.Struct("<3sBBII")  # magic, format, compressed, bytes of the description, of the rest
_SMALL = 256  # bytes that are not worth compressing
_NARROWER = (np.int8, np.int16, np.int32)


class ChunkStore(Protocol):
    """Storage of an operator's chunks between runs; `put` replaces the chunk of that key."""

    def get(self, key: str) -> Tree | None: ...

    def names(self, prefix: str = "") -> Iterable[str]:
        """The keys that begin in one way."""
        ...

    def put(self, key: str, chunk: Tree) -> None: ...

    def drop(self, key: str) -> None: ...


class MemoryStore:
    """Chunks in memory, packed, as any other store would have them."""

    def __init__(self) -> None:
        self.packed: dict[str, bytes] = {}

    def get(self, key: str) -> Tree | None:
        found = self.packed.get(key)
        return None if found is None else unpack(found)

    def names(self, prefix: str = "") -> Iterable[str]:
        return [key for key in self.packed if key.startswith(prefix)]

    def put(self, key: str, chunk: Tree) -> None:
        self.packed[key] = pack(chunk)

    def drop(self, key: str) -> None:
        self.packed.pop(key, None)


class Within:
    """The part of a store whose keys begin in one way."""

    def __init__(self, store: ChunkStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def get(self, key: str) -> Tree | None:
        return self._store.get(self._prefix + key)

    def names(self, prefix: str = "") -> Iterable[str]:
        skipped = len(self._prefix)
        return [key[skipped:] for key in self._store.names(self._prefix + prefix)]

    def put(self, key: str, chunk: Tree) -> None:
        self._store.put(self._prefix + key, chunk)

    def drop(self, key: str) -> None:
        self._store.drop(self._prefix + key)


def required(store: ChunkStore, key: str) -> Tree:
    """A chunk that another one refers to; an error if it is missing."""
    found = store.get(key)
    if found is None:
        raise RunError(f"a piece of saved state is missing: {key}")
    return found


# --- bytes ---------------------------------------------------------------------------------------


def pack(tree: Tree) -> bytes:
    """
    >>> unpack(pack({"counts": np.array([1, 2]), "next": None, "at": float("inf")}))
    {'counts': array([1, 2]), 'next': None, 'at': inf}
    """
    buffers: list[bytes] = []
    description = json.dumps(_described(tree, buffers), separators=(",", ":")).encode()
    body = b"".join(buffers)
    compressed = len(body) > _SMALL
    rest = pa.compress(body, codec="zstd", asbytes=True) if compressed else body
    return b"".join(
        (_HEAD.pack(_MAGIC, FORMAT, compressed, len(description), len(body)), description, rest)
    )


def unpack(packed: bytes) -> Tree:
    if len(packed) < _HEAD.size:
        raise RunError("a piece of saved state is not complete")
    magic, version, compressed, described, size = _HEAD.unpack_from(packed)
    if magic != _MAGIC:
        raise RunError("a piece of saved state is not in Penstock's format")
    if version > FORMAT:
        raise RunError(
            f"the saved state has format {version}, and this version of Penstock reads {FORMAT}",
            hint="run it with the version that wrote it, or a later one",
        )
    end = _HEAD.size + described
    body = memoryview(packed)[end:]
    if compressed:
        body = memoryview(pa.decompress(body, size, codec="zstd", asbytes=True))
    return _restored(json.loads(packed[_HEAD.size : end]), body)


def _described(tree: Tree, buffers: list[bytes]) -> Any:
    """The tree with arrays replaced by where their bytes are; a list says what it is first."""
    match tree:
        case None | bool() | int() | float() | str():
            return tree
        case dict():
            return {key: _described(value, buffers) for key, value in tree.items()}
        case list() | tuple():
            return ["list", *(_described(value, buffers) for value in tree)]
        case bytes():
            return ["bytes", _added(tree, buffers)]
        case np.ndarray():
            given, steps = _narrowed(tree), _steps(tree)
            if steps is not None and steps.itemsize < given.itemsize:
                size = _added(steps.tobytes(), buffers)
                return ["steps", steps.dtype.str, int(tree[0]), size]
            size = _added(np.ascontiguousarray(given).tobytes(), buffers)
            return ["array", given.dtype.str, tree.dtype.str, list(tree.shape), size]
        case np.generic():
            return tree.item()
        case pa.Array():
            batch = pa.RecordBatch.from_arrays([tree], ["_"])
            return ["column", _added(_ipc(batch), buffers)]
        case pa.RecordBatch():
            return ["batch", _added(_ipc(tree), buffers)]
    raise TypeError(f"state cannot hold a {type(tree).__name__}")


def _added(data: bytes, buffers: list[bytes]) -> int:
    buffers.append(data)
    return len(data)


def _narrowed(array: Any) -> Any:
    """Integers in as few bytes as they need: most counts are small."""
    if array.dtype != np.int64 or array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    for dtype in _NARROWER:
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return array.astype(dtype)
    return array


def _steps(array: Any) -> Any:
    """Steps from each number to the next, if they ascend: codes and positions often do."""
    if array.dtype != np.int64 or array.ndim != 1 or len(array) < 2:
        return None
    steps = np.diff(array)
    return _narrowed(steps) if steps.min() >= 0 else None


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _restored(described: Any, body: memoryview) -> Tree:
    reader = _Reader(body)
    return reader.tree(described)


class _Reader:
    """Takes buffers from a body in the order in which they were described."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def tree(self, described: Any) -> Tree:
        match described:
            case dict():
                return {key: self.tree(value) for key, value in described.items()}
            case ["list", *values]:
                return [self.tree(value) for value in values]
            case ["bytes", size]:
                return bytes(self._next(size))
            case ["array", stored, dtype, shape, size]:
                array = np.frombuffer(self._next(size), np.dtype(stored)).reshape(shape)
                return array.astype(np.dtype(dtype))  # a copy, which can be written to
            case ["steps", stored, first, size]:
                steps = np.frombuffer(self._next(size), np.dtype(stored))
                return np.cumsum(np.concatenate([[first], steps]), dtype=np.int64)
            case ["column", size]:
                return self._batch(size).column(0)
            case ["batch", size]:
                return self._batch(size)
        return described

    def _next(self, size: int) -> memoryview:
        begin, self._at = self._at, self._at + size
        return self._body[begin : self._at]

    def _batch(self, size: int) -> pa.RecordBatch:
        # copied out, so that a small column does not keep a large chunk alive
        with pa.ipc.open_stream(pa.py_buffer(bytes(self._next(size)))) as reader:
            return reader.read_next_batch()


# Tuples that wait, as chunks: new ones are appended, passed ones are dropped.
#
# An operator may sort, join and cut the tuples that it keeps; the log does not follow.  It only
# knows the bound from which on a piece is not needed any more, so a save never writes a piece
# twice.  The operator sets passed tuples within a piece aside again when it loads it.


class AppendLog:
    """Log of waiting tuples in chunks.  Nothing is held here until there has been a first save,
    which asks for all that is kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._used = False
        self._pending: list[tuple[Tree, Bound]] = []
        self._passed: Bound | None = None
        self._until: dict[int, Bound] = {}  # the chunks of the store: needed below this bound
        self._next = 0
        self._outdated = False

    def append(self, piece: Tree, until: Bound) -> None:
        """A piece that is needed while the bound is below `until`."""
        if self._used:
            self._pending.append((piece, until))

    def pass_(self, bound: Bound) -> None:
        """Drop the pieces that are not needed at a bound."""
        self._passed = bound
        self._pending = [each for each in self._pending if each[1] > bound]

    def begin_anew(self) -> None:
        """Discard the pieces, which no longer say what is kept: the next save asks for all of
        it."""
        self._used = False
        self._outdated = True
        self._pending = []

    def save(self, store: ChunkStore, kept: Callable[[], Iterable[tuple[Tree, Bound]]]) -> None:
        if not self._used:
            self._pending = list(kept())
            self._used = True
        gone = [
            number
            for number, until in self._until.items()
            if self._outdated or (self._passed is not None and until <= self._passed)
        ]
        for number in gone:
            store.drop(f"{self._name}/{number}")
            del self._until[number]
        if self._pending:
            until = max(bound for _, bound in self._pending)
            pieces = [piece for piece, _ in self._pending]
            store.put(f"{self._name}/{self._next}", {"until": until, "pieces": pieces})
            self._until[self._next] = until
            self._next += 1
        self._pending, self._outdated = [], False

    def load(self, store: ChunkStore) -> list[Tree]:
        """The pieces in the order in which they were appended."""
        prefix = f"{self._name}/"
        names = [name for name in store.names() if name.startswith(prefix)]
        numbers = sorted(int(name[len(prefix) :]) for name in names)
        pieces: list[Tree] = []
        for number in numbers:
            chunk = required(store, f"{prefix}{number}")
            self._until[number] = chunk["until"]
            pieces += chunk["pieces"]
        self._next = numbers[-1] + 1 if numbers else 0
        self._used = True
        return pieces


# State cut into slices along a progressing key, which are saved and dropped as a whole.

_FULL = 4096  # what a slice holds when the next one begins


class Content(Protocol):
    """State of one slice, as `Slices` saves and loads it; its length decides when the next slice
    begins."""

    def __len__(self) -> int: ...

    def save(self, store: ChunkStore) -> None: ...

    def load(self, store: ChunkStore) -> None: ...


T = TypeVar("T", bound=Content)


@dataclass(eq=False, slots=True)
class _Slice(Generic[T]):
    number: int  # among all slices that there ever were
    start: Bound  # keys from here on, up to the start of the next one
    content: T
    lowest: Bound = END  # the lowest key that may be in it


class Slices(Generic[T]):
    """State cut along a progressing key, by as much as it holds; each slice is saved apart."""

    def __init__(self, new: Callable[[], T], full: int = _FULL) -> None:
        self._new = new
        self._full = full
        self._slices = [_Slice(0, BEGINNING, new())]
        self._starts: list[int] = []  # of all slices but the first
        self._highest: Bound = BEGINNING
        self._touched: set[int] = set()  # since the last save, by their numbers
        self._stored: set[int] = set()

    def cut(self, ticks: Ints) -> Iterator[tuple[T, Ints | None]]:
        """Each slice with its rows; None for all rows."""
        if len(ticks) == 0:
            return
        newest = self._slices[-1]
        if len(newest.content) >= self._full and self._highest < np.iinfo(np.int64).max:
            start = int(self._highest) + 1
            self._starts.append(start)
            self._slices.append(_Slice(newest.number + 1, start, self._new()))
        lowest, highest = int(ticks.min()), int(ticks.max())
        self._highest = max(self._highest, highest)
        first, last = np.searchsorted(self._starts, [lowest, highest], side="right").tolist()
        if first == last:
            yield self._opened(first, lowest), None
            return
        of = np.searchsorted(self._starts, ticks, side="right")
        for number in different(of).tolist():
            rows = np.flatnonzero(of == number)
            yield self._opened(number, int(ticks[rows].min())), rows

    def parts(self, rows: pa.RecordBatch, ticks: Ints) -> Iterator[tuple[T, pa.RecordBatch, Ints]]:
        """Rows with the ticks of their keys, slice by slice; the first key tells the slice."""
        for content, which in self.cut(ticks[0]):
            if which is None:
                yield content, rows, ticks
            else:
                yield content, taken_rows(rows, which), ticks[:, which]

    def _opened(self, place: int, lowest: int) -> T:
        found = self._slices[place]
        found.lowest = min(found.lowest, lowest)
        self._touched.add(found.number)
        return found.content

    def upto(self, bound: Bound) -> Iterator[T]:
        """The slices that may hold keys below the bound."""
        for each in self._slices:
            if each.lowest < bound:
                yield each.content

    def touch(self, content: T) -> None:
        """The content of a slice has changed."""
        self._touched.update(each.number for each in self._slices if each.content is content)

    def forget(self, bound: Bound) -> None:
        """Drop the slices that lie wholly below the bound."""
        gone = sum(start <= bound for start in self._starts)
        self._touched.difference_update([each.number for each in self._slices[:gone]])
        del self._slices[:gone], self._starts[:gone]

    def save(self, store: ChunkStore) -> None:
        for each in self._slices:
            if each.number in self._touched:
                own = Within(store, f"slices/{each.number}/")
                own.put("span", {"start": each.start, "lowest": each.lowest})
                each.content.save(own)
                self._stored.add(each.number)
        kept = {each.number for each in self._slices}
        for number in self._stored - kept:
            own = Within(store, f"slices/{number}/")
            for name in own.names():
                own.drop(name)
        self._stored &= kept
        self._touched.clear()
        newest = self._slices[-1]
        register = {"number": newest.number, "start": newest.start, "highest": self._highest}
        store.put("newest", register)

    def load(self, store: ChunkStore) -> None:
        """The newest slice may not have been written; it is empty then."""
        newest = required(store, "newest")
        self._highest = newest["highest"]
        names = [name.split("/") for name in store.names() if name.startswith("slices/")]
        self._stored = {int(parts[1]) for parts in names}
        self._slices = []
        for number in sorted(self._stored | {newest["number"]}):
            content = self._new()
            if number not in self._stored:
                self._slices.append(_Slice(number, newest["start"], content))
                continue
            own = Within(store, f"slices/{number}/")
            span = required(own, "span")
            content.load(own)
            self._slices.append(_Slice(number, span["start"], content, span["lowest"]))
        self._starts = [int(each.start) for each in self._slices[1:]]
