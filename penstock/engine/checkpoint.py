"""Checkpoints in a directory: chunks that survive the process.

A checkpoint appends one segment, a file with the chunks that were put and dropped since the last
one, and then replaces the manifest, which names the segments that count.  Everything is on disk
before the manifest is replaced, and that happens at once or not at all: whatever the moment of a
crash, the checkpoint before it can be read.

Older segments that are no larger than what a checkpoint writes are merged into it, so that there
are few of them; and all of them when more than half of what they hold is out of date.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

from penstock.errors import CheckpointError
from penstock.operators.chunks import Tree, pack, unpack

FORMAT = 1
_MANIFEST = "manifest.json"
_SUFFIX = ".segment"
_MAGIC = b"PSSEG\x00\x00" + bytes([FORMAT])
_RECORD = struct.Struct("<IqII")  # bytes of the key, of the chunk (−1: dropped), checks of both
_DROPPED = -1


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a chunk is."""

    segment: str
    begin: int
    size: int
    check: int

    @property
    def weight(self) -> int:
        return self.size + _RECORD.size


class Checkpoints:
    """The chunks of a directory.  What is put and dropped counts from the next `commit` on, also
    for those who read; until then nothing is written."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._staged: dict[str, bytes | None] = {}
        self._places: dict[str, _Place] = {}
        self._sizes: dict[str, int] = {}  # the bytes of each segment that count
        self._dropped: dict[str, set[str]] = {}  # the keys that each segment drops
        self._number = 0  # of the last segment
        self._open()

    # --- chunks ----------------------------------------------------------------------------------

    def get(self, key: str) -> Tree | None:
        if key in self._staged:
            packed = self._staged[key]
            return None if packed is None else unpack(packed)
        place = self._places.get(key)
        return None if place is None else unpack(self._read(place))

    def names(self) -> Iterable[str]:
        gone = {key for key, packed in self._staged.items() if packed is None}
        return [*(self._places.keys() | self._staged.keys()) - gone]

    def put(self, key: str, chunk: Tree) -> None:
        packed = pack(chunk)
        place = self._places.get(key)
        if place is not None and place.size == len(packed) and self._read(place) == packed:
            self._staged.pop(key, None)  # as it was
        else:
            self._staged[key] = packed

    def drop(self, key: str) -> None:
        if key in self._places:
            self._staged[key] = None
        else:
            self._staged.pop(key, None)

    # --- checkpoints -----------------------------------------------------------------------------

    def commit(self) -> int:
        """Make a checkpoint of what was put and dropped; how many bytes it took."""
        if not self._staged:
            return 0
        merged = self._to_merge()
        sizes = {name: size for name, size in self._sizes.items() if name not in merged}
        records = dict(self._merged(merged)) | self._staged
        if not sizes:  # nothing is left to be dropped from
            records = {key: packed for key, packed in records.items() if packed is not None}
        name = f"{self._number + 1:08d}{_SUFFIX}"
        made = self._write_segment(name, records)
        sizes[name] = _size_of(records)
        self._write_manifest(sizes)
        self._number += 1
        kept = {key: place for key, place in self._places.items() if place.segment in sizes}
        for key in self._staged:
            kept.pop(key, None)
        self._places, self._sizes, self._staged = {**kept, **made}, sizes, {}
        self._dropped[name] = {key for key, packed in records.items() if packed is None}
        self._remove_others()
        return sizes[name]

    def _to_merge(self) -> set[str]:
        """The newest segments that the next one takes the place of."""
        weight = _size_of(self._staged)
        places = self._places.items()
        live = sum(place.weight for key, place in places if key not in self._staged)
        if sum(self._sizes.values()) > 2 * (live + weight):
            return set(self._sizes)
        merged = set()
        for name, size in reversed(self._sizes.items()):
            if size > weight:
                break
            merged.add(name)
            weight += size
        return merged

    def _merged(self, segments: set[str]) -> Iterator[tuple[str, bytes | None]]:
        """What counts of some segments: what they drop may be in those before them."""
        for name in segments:
            for key in self._dropped[name] - self._places.keys():
                yield key, None
        for key, place in self._places.items():
            if place.segment in segments:
                yield key, self._read(place)

    def _write_segment(self, name: str, records: Mapping[str, bytes | None]) -> dict[str, _Place]:
        places = {}
        pieces = [_MAGIC]
        at = len(_MAGIC)
        for key, packed in records.items():
            encoded = key.encode()
            body = packed if packed is not None else b""
            size = len(body) if packed is not None else _DROPPED
            pieces += [_RECORD.pack(len(encoded), size, crc32(encoded), crc32(body)), encoded, body]
            at += _RECORD.size + len(encoded)
            if packed is not None:
                places[key] = _Place(name, at, len(body), crc32(body))
            at += len(body)
        self._write(self._directory / name, pieces)
        return places

    def _write_manifest(self, sizes: dict[str, int]) -> None:
        content = {"penstock": "checkpoint", "format": FORMAT, "segments": sizes}
        text = json.dumps({**content, "check": _check(content)}, indent=1)
        beside = self._directory / f"{_MANIFEST}.new"
        self._write(beside, [text.encode()])
        beside.replace(self._directory / _MANIFEST)
        self._settle()

    def _write(self, path: Path, pieces: list[bytes]) -> None:
        """A file that is on disk when this returns."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            rest = memoryview(b"".join(pieces))
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        self._settle()

    def _settle(self) -> None:
        """The names of files are on disk, too."""
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _remove_others(self) -> None:
        """Segments that no manifest names: out of date, or left by a crash."""
        self._dropped = {name: self._dropped[name] for name in self._sizes}
        for path in self._directory.glob(f"*{_SUFFIX}"):
            if path.name not in self._sizes:
                path.unlink()

    # --- reading ---------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._directory.exists() and not self._directory.is_dir():
            _fail(self._directory, "is not a directory", "name a directory for checkpoints")
        self._directory.mkdir(parents=True, exist_ok=True)
        manifest = self._directory / _MANIFEST
        if not manifest.exists():
            return
        self._sizes = _segments(manifest)
        for name, size in self._sizes.items():
            self._dropped[name] = set()
            for key, place in self._scan(name, size):
                if place is None:
                    self._places.pop(key, None)
                    self._dropped[name].add(key)
                else:
                    self._places[key] = place
            self._number = int(name.removesuffix(_SUFFIX))

    def _scan(self, name: str, size: int) -> Iterator[tuple[str, _Place | None]]:
        """The keys of a segment, and where their chunks are."""
        path = self._directory / name
        if not path.exists():
            _fail(path, "is missing")
        if path.stat().st_size < size:
            _fail(path, f"has {path.stat().st_size} bytes where {size} were written")
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                _fail(path, "is not a segment of a checkpoint")
            at = len(_MAGIC)
            while at < size:
                length, chunk, key_check, check = _RECORD.unpack(file.read(_RECORD.size))
                if at + _RECORD.size + length > size:
                    _fail(path, f"is damaged at byte {at}")
                key = file.read(length)
                at += _RECORD.size + length
                if crc32(key) != key_check or at + max(chunk, 0) > size:
                    _fail(path, f"is damaged before byte {at}")
                yield key.decode(), None if chunk < 0 else _Place(name, at, chunk, check)
                at += max(chunk, 0)
                file.seek(at)

    def _read(self, place: _Place) -> bytes:
        path = self._directory / place.segment
        with path.open("rb") as file:
            file.seek(place.begin)
            packed = file.read(place.size)
        if len(packed) < place.size or crc32(packed) != place.check:
            _fail(path, f"is damaged after byte {place.begin}")
        return packed


def _size_of(records: Mapping[str, bytes | None]) -> int:
    pairs = records.items()
    bodies = sum(len(key.encode()) + len(packed or b"") + _RECORD.size for key, packed in pairs)
    return len(_MAGIC) + bodies


def _segments(manifest: Path) -> dict[str, int]:
    """The segments that count, oldest first, with their sizes."""
    try:
        content: Any = json.loads(manifest.read_bytes())
        check = content.pop("check", None)
        if content.pop("penstock") != "checkpoint":
            raise KeyError
        version = content["format"]
    except (ValueError, KeyError, AttributeError, TypeError):
        _fail(manifest, "is not the manifest of a checkpoint")
    if not isinstance(version, int) or version > FORMAT:
        _fail(
            manifest,
            f"has format {version}, and this version of Penstock reads {FORMAT}",
            "run it with the version that wrote it, or a later one",
        )
    if check != _check({"penstock": "checkpoint", **content}):
        _fail(manifest, "is damaged")
    return dict(content["segments"])


def _check(content: dict[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())


def _fail(path: Path, what: str, hint: str | None = None) -> NoReturn:
    raise CheckpointError(
        f"checkpoint: {path.name} in {path.parent} {what}",
        hint=hint or "restore the directory from a copy, or start without a checkpoint",
    )
