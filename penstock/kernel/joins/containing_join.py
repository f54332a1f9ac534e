"""Multi-way join over containers: a tree of joins in one operator that keeps intermediate results.

`Reservoir` keeps the tuples of one input as they arrived, so that a join with other containers, or
with none, can be started from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.joins.multiway_join import MultiwayInputs, MultiwayJoin, MultiwayProgress
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.joins.pairing import JoinState, at_least
from penstock.kernel.operator import Base, Item, LateRows, OpenResults, Progress, by_name, by_origin
from penstock.kernel.state import AppendLog, ChunkStore, Tree
from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.plan.identity import origins
from penstock.plan.join_properties import arranged
from penstock.plan.join_trees import Joined, JoinInput, JoinTree, flat
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.physical import Asked


@dataclass(frozen=True, slots=True)
class _KeptBatch:
    rows: pa.RecordBatch
    ticks: Ints
    highest: int


class Reservoir:
    """Tuples of one input in arrival order, unsorted and without an index.

    A piece is one batch that was added; it is evicted as a whole.
    """

    def __init__(self, name: str) -> None:
        self._pieces: list[_KeptBatch] = []
        self._log = AppendLog(name)
        self._limit: Bound = BEGINNING

    def add(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        if rows.num_rows:
            piece = _KeptBatch(rows, ticks, int(ticks.max()))
            if piece.highest >= self._limit:
                self._pieces.append(piece)
                self._log.append(rows, piece.highest + 1)

    def forget(self, limit: Bound) -> None:
        """Evict the tuples below the limit: they are in no later result."""
        if limit > self._limit:
            self._limit = limit
            self._pieces = [each for each in self._pieces if each.highest >= limit]
            self._log.pass_(limit)

    def __len__(self) -> int:
        return sum(each.rows.num_rows for each in self._pieces)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the tuples that are not below the limit."""
        for each in self._pieces:
            if self._limit == BEGINNING or int(each.ticks.min()) >= self._limit:
                yield each.rows
            else:
                yield each.rows.take(pa.array(np.flatnonzero(each.ticks >= self._limit)))

    def save(self, store: ChunkStore) -> None:
        self._log.save(store, lambda: [(each.rows, each.highest + 1) for each in self._pieces])

    def load(self, store: ChunkStore) -> list[Tree]:
        """Return the saved pieces; the caller adds them with `add_loaded`."""
        return self._log.load(store)

    def add_loaded(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """Add a piece that the store already has."""
        if rows.num_rows:
            self._pieces.append(_KeptBatch(rows, ticks, int(ticks.max())))


# A join of several inputs that keeps intermediate results: a tree of joins in one operator.
#
# Each join of the tree has its own state; the results of the lower ones, kept as state of the upper
# ones, are the containers.  The tuples of all inputs are kept as well, as they arrived: only they
# are saved, and an operator with other containers, or with none, can resume from them.

_MANY = 1 << 18  # results that are more than is held in memory at once


@dataclass(eq=False)
class _TreeJoin:
    """A join of the tree, and the port of the join above that receives its results; None at the
    top.
    """

    operator: OaJoin | MultiwayJoin
    inputs: list[int | _TreeJoin] = field(default_factory=list)  # inputs of the whole by number
    above: _TreeJoin | None = None
    port: int = 0


class ContainingJoin(Base):
    """Multi-way join with containers, of inputs whose tuples are never retracted."""

    def __init__(self, node: Join, asked: Asked | None = None) -> None:
        assert not node.signed
        tree = node.tree or flat(len(node.branches))
        self._inputs = MultiwayInputs(node, asked)
        self._progress = MultiwayProgress(node)
        self._kept = [Reservoir(f"{number}") for number in range(len(node.branches))]
        self._entry_ports: dict[
            int, tuple[_TreeJoin, int]
        ] = {}  # where the tuples of each input go
        self._joins: list[_TreeJoin] = []
        made = arranged(node, tree)
        self._top = self._build(tree, made, asked)
        self._schema = node.schema.arrow
        found = [each.qualified for each in made.schema]
        self._order = [found.index(name) for name in self._schema.names]
        self._names = set(self._schema.names)
        self._origins = origins(node)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        self._adopted = Progress()  # what another operator has promised before this one

    def _build(self, tree: Joined, join: Node, asked: Asked | None) -> _TreeJoin:
        assert isinstance(join, Join)
        leaves = any(isinstance(each, JoinInput) for each in tree.parts)
        own = asked if leaves else None  # results are never late
        operator = OaJoin(join, own) if len(tree.parts) == 2 else MultiwayJoin(join, own)
        part = _TreeJoin(operator)
        for port, (each, branch) in enumerate(zip(tree.parts, join.branches, strict=True)):
            part.inputs.append(self._input(part, port, each, branch, asked))
        self._joins.append(part)
        return part

    def _input(
        self, part: _TreeJoin, port: int, tree: JoinTree, branch: Node, asked: Asked | None
    ) -> int | _TreeJoin:
        if isinstance(tree, JoinInput):
            self._entry_ports[tree.number] = part, port
            return tree.number
        below = self._build(tree, branch, asked)
        below.above, below.port = part, port
        return below

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        """Join the tuples; very many results are produced lazily, as the caller iterates."""
        given, ticks, late = self._inputs.in_time(port, batch)
        items: list[Item] = [*late]
        given, times = self._inputs.with_keys(port, given, ticks)
        if not given.num_rows:
            return items
        self._kept[port].add(given.rows, times)
        results, made = self._join_at(*self._entry_ports[port], given), 0
        for each in results:
            items.append(each)
            made += each.num_rows if isinstance(each, Batch) else 0
            if made > _MANY:
                return chain(items, results)
        return items

    def _join_at(self, part: _TreeJoin, port: int, batch: Batch) -> Iterator[Item]:
        """Join tuples or combinations at a node of the tree, and pass the results on to the top."""
        for item in part.operator.on_batch(port, batch):
            yield from self._pass_up(part, item)

    def _pass_up(self, part: _TreeJoin, item: Item) -> Iterator[Item]:
        assert not isinstance(item, LateRows), "late tuples are set aside before"
        if part.above is None:
            yield self._row(item) if isinstance(item, Batch) else item
        elif isinstance(item, Batch):
            yield from self._join_at(part.above, part.port, item)
        else:
            for each in part.above.operator.on_progress(part.port, item):
                yield from self._pass_up(part.above, each)

    def _row(self, item: Batch) -> Batch:
        """Put the columns of all inputs into the order of the output schema."""
        columns = [item.rows.column(place) for place in self._order]
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        """Advance the input. All batches are computed at once, except very large results of a join
        inside, which are produced lazily.
        """
        items = list(self._advance(port, progress))
        rows: list[Item] = [each for each in items if not isinstance(each, Progress)]
        promises = [each for each in items if isinstance(each, Progress)]
        if not promises:
            return rows
        last = promises[-1]
        promised = at_least(Progress(last.bounds, {}, last.ended, joint=last.joint), self._adopted)
        if promised != self._promised:
            self._promised = promised
            high = dict(self._high)
            rows.append(Progress(promised.bounds, high, promised.ended, joint=promised.joint))
        return rows

    def _advance(self, port: int, progress: Progress) -> Iterator[Item]:
        self._high |= {k: v for k, v in progress.high.items() if k in self._names}
        if self._progress.advance(port, progress, self._inputs.final(port, progress)):
            for other, kept in enumerate(self._kept):
                if other != port:
                    kept.forget(self._progress.limit(other))
        part, own = self._entry_ports[port]
        for item in part.operator.on_progress(own, progress):
            yield from self._pass_up(part, item)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        """Number of tuples kept, plus the rows that the containers hold."""
        containers = sum(part.operator.rows_held() for part in self._joins)
        return containers + sum(map(len, self._kept))

    def open_results(self) -> OpenResults:
        return OpenResults()

    def save(self, store: ChunkStore) -> None:
        for each in self._kept:
            each.save(store)
        high = by_origin(self._high, self._origins)
        promised = self._promised.save(self._origins)
        bounds = self._progress.save()
        store.put("run", {"bounds": bounds, "high": high, "promised": promised})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        for port, each in enumerate(self._kept):
            for piece in each.load(store):
                rows = self._inputs.named(port, piece)
                each.add_loaded(rows, self._inputs.ticks(port, rows))
        self._progress.load(saved["bounds"])
        high = by_name(saved["high"], self._origins)
        given = self._progress.given(high, self._inputs.columns)
        for port, each in enumerate(self._kept):
            each.forget(self._progress.limit(port))
        self._resume(given, Progress.load(saved["promised"], self._origins))

    def kept(self, port: int) -> Iterator[pa.RecordBatch]:
        """Tuples of an input that may be in a later result."""
        return self._kept[port].rows()

    def export(self) -> JoinState:
        kept = tuple(tuple(self.kept(port)) for port in range(len(self._kept)))
        given = self._progress.given(self._high, self._inputs.columns)
        return JoinState(kept, tuple(() for _ in kept), (), given, self._promised)

    def adopt(self, state: JoinState) -> None:
        for port, several in enumerate(state.kept):
            for rows in several:
                self._kept[port].add(rows, self._inputs.ticks(port, rows))
        self._resume(state.progress, state.promised)

    def _resume(self, given: tuple[Progress, ...], promised: Progress) -> None:
        """Resume from the tuples that are kept: fill the containers without emitting, because all
        results among these tuples have been emitted before.
        """
        kept = tuple(tuple(self._contents(each)) for each in self._top.inputs)
        nothing = tuple(Progress() for _ in kept)
        empty = tuple(() for _ in kept)
        self._top.operator.adopt(JoinState(kept, empty, (), nothing, Progress()))
        for port, progress in enumerate(given):
            for _ in self._advance(port, progress):
                pass
        self._promised = self._adopted = promised

    def _contents(self, part: int | _TreeJoin) -> Iterator[pa.RecordBatch]:
        """Tuples of an input, or the results that a container holds."""
        if isinstance(part, int):
            yield from self._kept[part].rows()
            return
        for port, each in enumerate(part.inputs):
            for rows in self._contents(each):
                for item in part.operator.on_batch(port, Batch(rows)):
                    assert isinstance(item, Batch)
                    yield item.rows
