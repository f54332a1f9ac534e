"""State as chunks: named pieces of plain values and arrays, of which a host saves what has changed.

A chunk is a tree of dictionaries and lists with numbers, texts, NumPy and Arrow arrays as leaves.
Packed, it is a version, a description in JSON and the buffers of the arrays: nothing in it is ever
executed when it is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import RunError

Tree: TypeAlias = Any  # dict[str, Tree] | list[Tree] | plain value | np.ndarray | pa.Array | …

FORMAT = 6
_MAGIC = b"PSC"
_HEAD = struct.Struct("<3sBBII")  # magic, format, compressed, bytes of the description, of the rest
_SMALL = 256  # bytes that are not worth compressing
_NARROWER = (np.int8, np.int16, np.int32)


class ChunkStore(Protocol):
    """Where an operator keeps its chunks between runs.  What is put replaces what was there."""

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
    """A chunk that another one says is there."""
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
    """From each number to the next, if they ascend: codes and positions often do."""
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
