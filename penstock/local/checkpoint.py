"""Checkpoints in a directory, and the runs that are saved in them.

Chunks survive the process in an SQLite database.  Puts and drops between two commits are one
transaction: whatever the moment of a crash, the commit before it can be read.  Every chunk has a
checksum, the database has one over all of them, and a second file says that there is a database and
which one, so that a database which is deleted, exchanged or cut is an error and never the beginning
of a stream.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from urllib.parse import quote
from zlib import crc32

from penstock.errors import CheckpointError
from penstock.io.durable_files import lock, make_room, read_json, refuse_no_directory, write_json
from penstock.io.sources.source import Chunk
from penstock.kernel.build import drop_all, load_moved
from penstock.kernel.state import ChunkStore, Tree, Within, pack, required, unpack
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph.topology import order_name, windows_of_panes_name
from penstock.local.run import ENDED, LocalRun
from penstock.model.clock import Clock
from penstock.optimizer.sharing import share_panes
from penstock.plan.identity import (
    algorithms,
    check_algorithms,
    check_query,
    identity,
    without_windows,
)
from penstock.plan.physical import OperatorKind, PhysicalPlan
from penstock.runs.answer import Account

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
        _reject_foreign_directory(self._directory)
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
        """Size on disk in bytes."""
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
        """Raise errors of SQLite as errors that name the checkpoint."""
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
            hint=hint or "restore the directory from a copy, or start over with another one",
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
    """Checksum over the chunks and the head (the owner and the epoch); negative, which tells it
    from those of earlier versions."""
    return -1 - ((total + crc32(f"{own} {epoch}".encode())) & _MASK)


def _typed(row: tuple[Any, ...], *types: type) -> Any:
    """A row whose values have some types, None otherwise."""
    return row if tuple(map(type, row)) == types else None


def _reject_foreign_directory(directory: Path) -> None:
    """Reject a directory that holds anything but a checkpoint of the local engine."""
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


# The state of a whole run: its operators, and what its sources have promised and handed over.

LIVE = "live"  # the chunk that every checkpoint of a live engine has
Planned: TypeAlias = Callable[[int, Collection[str]], PhysicalPlan]


def save_run(run: LocalRun, store: ChunkStore) -> None:
    """Save a run between any two chunks."""
    store.put("run", _identity(run))
    store.put("closed", run.closed)
    store.put("accounts", [asdict(run.total(outlet)) for outlet in run.outlets])
    for stage in run.stages:
        save_operator(stage, store)
    for scan in run.scans:
        scan.ingest.save(of_source(store, scan, "sources"))
        if scan.reading is not None:
            scan.reading.save(of_source(store, scan, "readings"))


def load_run(run: LocalRun, store: ChunkStore) -> None:
    """Restore a run that has read nothing yet."""
    saved = store.get("run")
    if saved is None:
        refuse_live(store)
        return
    _compare(saved, _identity(run))
    run.closed = required(store, "closed")
    if ENDED in run.closed.values():
        raise CheckpointError(
            "the checkpoint was closed by a final run, and nothing can follow",
            expected="another checkpoint: results that only the end of the streams completes, such"
            " as windows over numbers of rows, have been given out",
        )
    for outlet, account in zip(run.outlets, required(store, "accounts"), strict=True):
        run.before[outlet] = Account(**account)
    _load_operators(run, saved["operators"], store)
    for scan in run.scans:
        own = of_source(store, scan, "sources")
        required(own, "read")  # a stream that was read never begins anew without a word
        scan.ingest.load(own)
        if scan.reading is not None:
            scan.reading.load(of_source(store, scan, "readings"))


def refuse_live(store: ChunkStore) -> None:
    """Reject the checkpoint of a live engine, whose queries come and go."""
    if store.get(LIVE) is not None:
        raise CheckpointError(
            "the checkpoint was made by a live engine",
            hint="db.live(checkpoint=…), penstock shell --checkpoint, or another checkpoint",
        )


def as_begun(
    plans: Sequence[PhysicalPlan], store: ChunkStore, planned: Planned
) -> list[PhysicalPlan]:
    """The plans of some queries as the run was planned that a store holds: simplified by the rules
    that there were, because these decide what is kept.  `planned` makes the plan of a query, by its
    number, by some rules."""
    saved = store.get("run")
    if saved is None or len(saved["queries"]) != len(plans):
        return list(plans)
    simplified = saved.get("simplified", [[] for _ in plans])
    return [
        plan if plan.simplified == tuple(rules) else planned(number, rules)
        for number, (plan, rules) in enumerate(zip(plans, simplified, strict=True))
    ]


def shared_as_begun(plans: Sequence[PhysicalPlan], store: ChunkStore) -> list[PhysicalPlan]:
    """The plans with panes in common.  If the store holds a run, exactly those aggregations have
    them that had them then, however they would be computed today."""
    saved = store.get("run")
    if saved is None:
        return share_panes(plans)
    return share_panes(plans, lambda each: windows_of_panes_name(each) in saved["operators"])


def _load_operators(run: LocalRun, were: dict[str, str], store: ChunkStore) -> None:
    """Restore operators.  State moves where another operator takes the place of the one that saved
    it, and belongs to the new one from the next commit on.  Rows that an earlier plan has put in
    order go on waiting for their order behind a plan that delivers them in order by itself."""
    _check_state(run, were)
    ordered = {name for name, kind in were.items() if kind == OperatorKind.ORDER.value}
    waiting = [
        run.put_in_order(number)
        for number, plan in enumerate(run.plans)
        if order_name(plan.executed) in ordered - _kinds(run).keys()
    ]
    _reject_orphaned_state(run, were, store)
    for stage in run.stages:
        was, own = were.get(stage.name, stage.node.operator.value), of_operator(store, stage.name)
        if load_moved(stage.operator, stage.node, was, own, run.clock):
            drop_all(own)
            stage.operator.save(own)
    for stage in waiting:
        if stage.operator.metrics().rows == 0:
            run.leave_at_once(stage)
            drop_all(of_operator(store, stage.name))
    if were != _kinds(run):
        store.put("run", _identity(run))


def _check_state(run: LocalRun, were: dict[str, str]) -> None:
    """Check that every stateful operator finds its state; only ORDER may be new in the plan."""
    for stage in run.stages:
        asked = stage.node.stateful and stage.node.operator is not OperatorKind.ORDER
        if asked and stage.name not in were:
            raise no_state_of(stage)


def _reject_orphaned_state(run: LocalRun, were: dict[str, str], store: ChunkStore) -> None:
    """Reject state that no operator of the run restores."""
    for name in were.keys() - _kinds(run).keys():
        if any(True for _ in of_operator(store, name).names()):
            raise CheckpointError(
                f"the checkpoint has state of {were[name]} that nothing goes on with: the query is"
                " put together in another way now",
                hint="run it with the version and the data that wrote it, or start over with"
                " another checkpoint",
            )


def no_state_of(stage: OperatorNode) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has no state of {stage.node.operator.value}: the query is put"
        " together in another way now",
        hint="run it with the version and the data that wrote it, or start over with another"
        " checkpoint",
    )


def save_operator(stage: OperatorNode, store: ChunkStore) -> None:
    """Save an operator; one that has taken the place of another first drops the chunks of that
    one."""
    own = of_operator(store, stage.name)
    if stage.exchanged:
        drop_all(own)
        stage.exchanged = False
    stage.operator.save(own)


def _kinds(run: LocalRun) -> dict[str, str]:
    """Kind of the operator of every node, by name."""
    return {stage.name: stage.node.operator.value for stage in run.stages}


def of_operator(store: ChunkStore, name: str) -> ChunkStore:
    return Within(store, f"operators/{name}/")


def of_source(store: ChunkStore, scan: SourceNode, what: str) -> ChunkStore:
    # the name of a stream may contain any character
    return Within(store, f"{what}/{quote(scan.name, safe='')}/")


def _identity(run: LocalRun) -> Tree:
    return {
        "queries": [identity(query) for query in run.queries],
        "algorithms": [algorithms(query) for query in run.queries],
        "operators": _kinds(run),
        "simplified": [list(plan.simplified) for plan in run.plans],
    }


def _compare(saved: dict[str, Any], own: dict[str, Any]) -> None:
    """Check that state is that of these queries.  Their windows may be computed differently: the
    state says which operators it is of."""
    if len(saved["queries"]) != len(own["queries"]):
        raise CheckpointError(
            f"the checkpoint is of {len(saved['queries'])} queries, and these are"
            f" {len(own['queries'])}",
            hint="run the queries that it is of, or start over with another checkpoint",
        )
    where = "the checkpoint"
    for found, given in zip(saved["queries"], own["queries"], strict=True):
        check_query(found, given, where)
    for found, given in zip(saved["algorithms"], own["algorithms"], strict=True):
        check_algorithms(without_windows(found), without_windows(given), where)


# A run that is saved again and again: its outputs first, then its state, all of an epoch or none.
#
# Whatever the moment of a crash, the state of the last epoch is there, and every output knows how
# long it was then.  Without a store only outputs that appear epoch by epoch have a use for it.

EVERY = 1_000_000  # microseconds between two epochs
_ROWS = 1 << 20  # that may wait to be written


class Epochs:
    """Commits the outputs and the state of a run together, epoch by epoch."""

    def __init__(
        self, run: LocalRun, store: Checkpoints | None, clock: Clock, every: int = EVERY
    ) -> None:
        self._run = run
        self._store = store
        self._clock = clock
        self._every = every
        self._last = clock.now()
        self._written = 0  # rows, at the last epoch
        self._changed = False
        self.count = 0  # of epochs, in this run
        if store is not None:
            load_run(run, store)

    def fed(self, chunk: Chunk) -> None:
        """Note that rows have come or time has passed, and commit an epoch that has lasted long
        enough."""
        waiting = self._all_written - self._written
        self._changed |= bool(chunk.num_rows or chunk.seen or waiting)
        long_enough = self._clock.now() - self._last >= self._every
        if self._changed and (long_enough or waiting >= _ROWS):
            self.commit()

    def commit(self) -> None:
        """Commit an epoch: all that has come is in the outputs and in the state, or none of it
        is."""
        number = self._store.epoch + 1 if self._store is not None else self.count
        for outlet in self._run.outlets:
            outlet.commit(number)
        if self._store is not None:
            save_run(self._run, self._store)
            self._store.commit()
        self.count += 1
        self._last = self._clock.now()
        self._written = self._all_written
        self._changed = False

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    @property
    def keeps(self) -> bool:
        """Whether a later run can resume from here."""
        return self._store is not None

    @property
    def state_bytes(self) -> int:
        return self._store.size if self._store is not None else 0

    @property
    def _all_written(self) -> int:
        return sum(outlet.written for outlet in self._run.outlets)
