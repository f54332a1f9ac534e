"""Checkpoints in a directory: chunks that survive the process, in an SQLite database.

What a run puts and drops between two commits is one transaction: whatever the moment of a crash,
the commit before it can be read.  Every chunk has a checksum, the database has one over all of
them, and a second file says that there is a database and which one, so that a database which is
deleted, exchanged or cut is an error and never the beginning of a stream.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

from penstock.durable import lock, make_room, read_json, refuse_no_directory, write_json
from penstock.errors import CheckpointError
from penstock.state.chunks import Tree, pack, unpack

FORMAT = 6
_READ = (5, FORMAT)  # of format 5, what queries share and their accounts are written in other ways
DATABASE = "state.sqlite"
_MARKER = "checkpoint.json"
_LOCK = "lock"
_ROOM = 1 << 16  # bytes that a disk has at least if it is not full
_SCHEMA = """
CREATE TABLE chunk (key TEXT PRIMARY KEY, packed BLOB NOT NULL, checked INTEGER NOT NULL);
CREATE TABLE head (id TEXT NOT NULL, epoch INTEGER NOT NULL, checked INTEGER NOT NULL);
"""


class Checkpoints:
    """The chunks of a directory.  What is put and dropped counts from the next `commit` on, also
    for those who read; until then nothing is written.  `epoch` is how many commits there were."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._staged: dict[str, bytes | None] = {}
        self._checks: dict[str, int] = {}  # of the chunks that are there
        self._total = 0  # of these, in one number
        self._folders: dict[str, set[str]] = {}  # keys, staged ones as well, by how they begin
        self._opened = ExitStack()
        _refuse_others(self._directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            held = lock(self._directory / _LOCK, f"the checkpoint in {self._directory}")
            self._opened.enter_context(held)
        except OSError as error:
            hint = make_room(self._directory, error)
            raise self._failure(f"cannot be opened: {error.strerror}", hint) from None
        try:
            with self._failing():
                self._open()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """In bytes, on disk."""
        return (self._directory / DATABASE).stat().st_size

    def close(self) -> None:
        self._opened.close()

    # --- chunks ----------------------------------------------------------------------------------

    def get(self, key: str) -> Tree | None:
        if key in self._staged:
            packed = self._staged[key]
            return None if packed is None else unpack(packed)
        return None if key not in self._checks else unpack(self._read(key))

    def names(self, prefix: str = "") -> Iterable[str]:
        folder = _folder(prefix)
        if folder is None:
            every: Iterable[str] = (key for keys in self._folders.values() for key in keys)
        else:
            every = self._folders.get(folder, ())
        staged = self._staged
        return [key for key in every if key.startswith(prefix) and staged.get(key, b"") is not None]

    def put(self, key: str, chunk: Tree) -> None:
        packed = pack(chunk)
        if self._checks.get(key) == crc32(packed) and self._read(key) == packed:
            self._staged.pop(key, None)  # as it was
        else:
            self._staged[key] = packed
            self._folders.setdefault(_folder(key) or key, set()).add(key)

    def drop(self, key: str) -> None:
        if key in self._checks:
            self._staged[key] = None
        elif self._staged.pop(key, None) is not None:
            self._forget(key)

    def _forget(self, key: str) -> None:
        folder = _folder(key) or key
        self._folders[folder].discard(key)
        if not self._folders[folder]:
            del self._folders[folder]

    # --- commits ---------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make a checkpoint of what was put and dropped; how many bytes of chunks it took."""
        written = {key: packed for key, packed in self._staged.items() if packed is not None}
        checks = {key: crc32(packed) for key, packed in written.items()}
        gone = {key: self._checks[key] for key in self._staged if key in self._checks}
        total = self._total - _total_of(gone) + _total_of(checks)
        if self._outdated:
            self._mark()
        with self._failing(), self._database:
            self._database.execute("BEGIN")
            self._database.executemany(
                "DELETE FROM chunk WHERE key = ?", [(key,) for key in self._staged]
            )
            self._database.executemany(
                "INSERT INTO chunk VALUES (?, ?, ?)",
                [(key, packed, checks[key]) for key, packed in written.items()],
            )
            self._database.execute(
                "UPDATE head SET epoch = ?, checked = ?",
                (self.epoch + 1, _check_of(total, self._id, self.epoch + 1)),
            )
        self.epoch += 1
        for key in gone:
            del self._checks[key]
            if self._staged[key] is None:
                self._forget(key)
        self._checks |= checks
        self._total, self._staged = total, {}
        return sum(map(len, written.values()))

    # --- opening ---------------------------------------------------------------------------------

    def _open(self) -> None:
        marker = read_json(self._directory / _MARKER)
        path = self._directory / DATABASE
        if marker is not None and marker.get("format") not in _READ:
            raise self._failure(
                f"has format {marker.get('format')}, and this version of Penstock reads {FORMAT}",
                "run it with the version that wrote it, or a later one",
            )
        if marker is not None and not path.exists():
            raise self._failure(f"has lost its {DATABASE}")
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._opened.callback(self._database.close)
        # at rest there is one file, which can be copied
        self._database.execute("PRAGMA journal_mode = DELETE")
        self._database.execute("PRAGMA synchronous = FULL")
        if marker is None:
            self._begin()
        head = self._database.execute("SELECT id, epoch, checked FROM head").fetchall()
        if len(head) != 1 or (marker is not None and head[0][0] != marker["id"]):
            raise self._failure(f"has a {DATABASE} that belongs to another one")
        self._outdated = marker is not None and marker["format"] != FORMAT
        self._id, self.epoch, check = _typed(head[0], str, int, int) or self._damaged()
        found = self._database.execute("SELECT key, checked FROM chunk").fetchall()
        # a page that was zeroed or exchanged has values of other types
        self._checks = dict(_typed(row, str, int) or self._damaged() for row in found)
        self._total = _total_of(self._checks)
        for key in self._checks:
            self._folders.setdefault(_folder(key) or key, set()).add(key)
        # earlier versions have left the epoch out
        right = self._total & _MASK if check >= 0 else _check_of(self._total, self._id, self.epoch)
        if check != right or len(found) != len(self._checks):
            self._damaged()

    def _damaged(self) -> NoReturn:
        raise self._failure(f"is damaged: chunks in {DATABASE} are missing or exchanged")

    def _begin(self) -> None:
        """A new database, unless a crash came between it and its marker."""
        tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables:
            with self._database:
                self._database.execute("BEGIN")
                for statement in _SCHEMA.strip().split("\n"):
                    self._database.execute(statement)
                own = uuid.uuid4().hex
                first = (own, 0, _check_of(0, own, 0))
                self._database.execute("INSERT INTO head VALUES (?, ?, ?)", first)
        self._mark()

    def _mark(self) -> None:
        """Earlier versions are not to read what is written from now on."""
        self._outdated = False
        (own,) = self._database.execute("SELECT id FROM head").fetchone()
        content = {"penstock": "checkpoint", "engine": "local", "format": FORMAT, "id": own}
        write_json(self._directory / _MARKER, content)

    def _read(self, key: str) -> bytes:
        with self._failing():
            found = self._database.execute(
                "SELECT packed FROM chunk WHERE key = ?", (key,)
            ).fetchone()
        intact = found is not None and isinstance(found[0], bytes)
        if not intact or crc32(found[0]) != self._checks[key]:
            raise self._failure(f"is damaged at the chunk {key!r}")
        return bytes(found[0])

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What SQLite says, as an error that names the checkpoint."""
        try:
            yield
        except sqlite3.Error as error:
            hint = make_room(self._directory) if self._is_full(error) else None
            raise self._failure(f"cannot be read or written: {error}", hint) from error

    def _is_full(self, error: sqlite3.Error) -> bool:
        """Whether there is no room for the database; or for the journal of a transaction, which is
        rolled back."""
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
        operational = isinstance(error, sqlite3.OperationalError)
        return operational and shutil.disk_usage(self._directory).free < _ROOM

    def _failure(self, what: str, hint: str | None = None) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint in {self._directory} {what}",
            hint=hint or "restore the directory from a copy, or begin anew with another one",
        )


def _folder(key: str) -> str | None:
    """The first two parts of a key, which say whose chunk it is: there may be very many of others.
    None: it has no more than one.

    >>> _folder("operators/Filter-1/panes/7"), _folder("accounts")
    ('operators/Filter-1', None)
    """
    second = key.find("/", key.find("/") + 1)
    return key[:second] if second > 0 and "/" in key[:second] else None


def _total_of(checks: dict[str, int]) -> int:
    """One number for some chunks, whatever their order."""
    return sum(crc32(key.encode(), check) + 1 for key, check in checks.items())


_MASK = 2**62 - 1


def _check_of(total: int, own: str, epoch: int) -> int:
    """Of the chunks, and of the head that says whose they are and from when: below 0."""
    return -1 - ((total + crc32(f"{own} {epoch}".encode())) & _MASK)


def _typed(row: tuple[Any, ...], *types: type) -> Any:
    """A row whose values have some types, None otherwise."""
    return row if tuple(map(type, row)) == types else None


def _refuse_others(directory: Path) -> None:
    """What is not a checkpoint of the local engine is left alone."""
    refuse_no_directory(directory)
    found: list[Any] = []
    if directory.is_dir():
        found = [each for each in directory.iterdir() if not each.name.startswith(".")]
    names = {each.name for each in found}
    if {"spark", "penstock"} & names:
        raise CheckpointError(
            f"the checkpoint in {directory} was made by the spark engine",
            hint="--engine spark, or another checkpoint",
        )
    if names and not names & {DATABASE, _MARKER, _LOCK}:
        raise CheckpointError(
            f"{directory} holds other things than a checkpoint", hint="name an empty directory"
        )
