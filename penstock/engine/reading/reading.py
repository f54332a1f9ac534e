"""How far a source has been read, part by part, so that a later run can go on behind it.

Files are gone on with where they were left, and new ones are read from their beginning.  Data that
the program holds, and rows that it makes, are read again from their first row: those that had been
read are compared and skipped.  What is live cannot be read again; it goes on with what comes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from penstock.errors import SourceError
from penstock.model.schema import Schema
from penstock.sources.checksums import RowDigest
from penstock.sources.files import FileSource
from penstock.sources.live import Attention, LiveSource, chunks_of
from penstock.sources.rejects import Reject, RejectKind, RejectsOnceMore, StreamRejects
from penstock.sources.source import Chunk, FileSeen, PartRead, Restart, Source
from penstock.state.chunks import ChunkStore, Tree, required

_BLOCK = 256  # files whose marks are saved together


class Reading:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.parts: dict[str, PartRead] = {}
        self._numbers: dict[str, int] = {}  # of the parts, in the order in which they came
        self._changed: set[int] = set()  # blocks that have to be saved
        self._digest = RowDigest()
        self._told = self._digest.value  # by the run before

    # --- reading ---------------------------------------------------------------------------------

    def chunks(
        self,
        schema: Schema,
        rejects: StreamRejects,
        growing: bool,
        attention: Attention,
        followed: bool = False,
    ) -> Iterator[Chunk]:
        """What has not been read yet; a source that may go on `growing` keeps half a line."""
        told = {part: read.bad_to for part, read in self.parts.items()}
        again = RejectsOnceMore(rejects.log, rejects.stream, told)
        if isinstance(self.source, FileSource):
            known = dict(self.parts)
            return self.source.read_on(schema, again, known, growing, attention, followed)
        if isinstance(self.source, LiveSource) or not self.parts:
            return chunks_of(self.source, schema, rejects, attention)
        return self._skipping(schema, again, attention)

    def _skipping(
        self, schema: Schema, rejects: StreamRejects, attention: Attention
    ) -> Iterator[Chunk]:
        """The rows of a source that starts at its beginning again, without those that were read."""
        left, digest = self.parts[""].rows, RowDigest()

        def rest(chunk: Chunk | None) -> Chunk | None:
            nonlocal left
            if not left or chunk is None:
                return chunk
            rows = chunk.num_rows
            skipped = min(left, rows)
            left -= skipped
            digest.add(chunk.batch.slice(0, skipped))
            if not left:
                self._check(digest)
            return replace(chunk, batch=chunk.batch.slice(skipped)) if skipped < rows else None

        meanwhile = attention.meanwhile
        if meanwhile is not None:
            told = meanwhile
            attention = replace(attention, meanwhile=lambda take: told(lambda: rest(take())))
        for chunk in chunks_of(self.source, schema, rejects, attention):
            new = rest(chunk)
            if new is not None:
                yield new
        if left:
            self._check(digest)

    def _check(self, digest: RowDigest) -> None:
        if digest.value != self._told:
            raise SourceError(
                f"the first {self.parts[''].rows:,} rows of {self.source.describe()} are not those"
                " that were read",
                expected="the same rows as before, and new ones behind them",
                hint="begin anew with another checkpoint",
            )
        self._digest = digest

    # --- what has been read ----------------------------------------------------------------------

    def fed(self, chunk: Chunk) -> None:
        """A chunk is part of the state now."""
        if not chunk.num_rows and chunk.seen is None:
            return  # a source had nothing to say
        read = self.parts.get(chunk.part, PartRead())
        read = replace(read, rows=read.rows + chunk.num_rows)
        if chunk.restart is not None:
            read = replace(read, restart=chunk.restart, restart_rows=read.rows)
        if chunk.seen is not None:
            read = replace(read, seen=chunk.seen)
        self._put(chunk.part, read)
        if not isinstance(self.source, FileSource | LiveSource):
            self._digest.add(chunk.batch)

    def told(self, rejects: Iterable[Reject]) -> None:
        """Rejects have been handed on; bad ones may lie ahead of what has been fed."""
        for reject in rejects:
            if reject.kind is RejectKind.BAD_ROW:
                read = self.parts.get(reject.source, PartRead())
                self._put(reject.source, replace(read, bad_to=max(read.bad_to, reject.row)))

    def _put(self, part: str, read: PartRead) -> None:
        number = self._numbers.setdefault(part, len(self._numbers))
        self._changed.add(number // _BLOCK)
        self.parts[part] = read

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        if not self._changed:
            return
        names = list(self._numbers)
        for block in self._changed:
            some = names[block * _BLOCK : (block + 1) * _BLOCK]
            store.put(f"parts/{block}", {name: _saved(self.parts[name]) for name in some})
        self._changed = set()
        store.put("digest", list(self._digest.value))

    def load(self, store: ChunkStore) -> None:
        blocks = sorted(int(name[6:]) for name in store.names() if name.startswith("parts/"))
        for block in blocks:
            for name, saved in required(store, f"parts/{block}").items():
                self._put(name, _loaded(saved))
        self._changed = set()
        if blocks:
            self._told = tuple(required(store, "digest"))


def _saved(read: PartRead) -> Tree:
    saved = asdict(read)
    if saved["seen"] is not None and not saved["seen"]["left"]:
        del saved["seen"]["left"]  # which earlier versions do not know
    return saved


def _loaded(saved: Tree) -> PartRead:
    restart, seen = saved["restart"], saved["seen"]
    return PartRead(
        saved["rows"],
        saved["bad_to"],
        None if restart is None else Restart(**restart),
        saved["restart_rows"],
        None if seen is None else FileSeen(**seen),
    )
