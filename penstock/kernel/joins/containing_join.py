"""Tuples of one input as they came, for as long as a result may have them: what a join goes on from
that finds its results in another way.
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
    """A piece is what came at a time, and goes away as a whole: nothing is sorted or looked up."""

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
        """Tuples below it are in no result to come."""
        if limit > self._limit:
            self._limit = limit
            self._pieces = [each for each in self._pieces if each.highest >= limit]
            self._log.pass_(limit)

    def __len__(self) -> int:
        return sum(each.rows.num_rows for each in self._pieces)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Those that are not below the limit."""
        for each in self._pieces:
            if self._limit == BEGINNING or int(each.ticks.min()) >= self._limit:
                yield each.rows
            else:
                yield each.rows.take(pa.array(np.flatnonzero(each.ticks >= self._limit)))

    def save(self, store: ChunkStore) -> None:
        self._log.save(store, lambda: [(each.rows, each.highest + 1) for each in self._pieces])

    def load(self, store: ChunkStore) -> list[Tree]:
        """The pieces that were saved, which are to be added again."""
        return self._log.load(store)

    def add_loaded(self, rows: pa.RecordBatch, ticks: Ints) -> None:
        """A piece that the store has already."""
        if rows.num_rows:
            self._pieces.append(_KeptBatch(rows, ticks, int(ticks.max())))


# A join of several inputs that keeps intermediate results: a tree of joins in one operator.
#
# The joins in it have their own state, and what some of them find is kept by others: those are
# the containers.  Beside them, the tuples of all inputs are kept as they came.  So another
# operator, with other containers or none, can go on from here, and what is saved is the tuples
# alone.

_MANY = 1 << 18  # results that are more than is held in memory at once


@dataclass(eq=False)
class _Part:
    """A join of the tree, and whom its results go to: a port of another, or nobody."""

    operator: OaJoin | MultiwayJoin
    inputs: list[int | _Part] = field(default_factory=list)  # inputs of the whole by number
    above: _Part | None = None
    port: int = 0


class ContainingJoin(Base):
    """Tuples that stay what they are: nothing is ever taken back."""

    def __init__(self, node: Join, asked: Asked | None = None) -> None:
        assert not node.signed
        tree = node.tree or flat(len(node.branches))
        self._inputs = MultiwayInputs(node, asked)
        self._progress = MultiwayProgress(node)
        self._kept = [Reservoir(f"{number}") for number in range(len(node.branches))]
        self._ways: dict[int, tuple[_Part, int]] = {}  # where the tuples of each input go
        self._parts: list[_Part] = []
        made = arranged(node, tree)
        self._top = self._built(tree, made, asked)
        self._schema = node.schema.arrow
        found = [each.qualified for each in made.schema]
        self._order = [found.index(name) for name in self._schema.names]
        self._names = set(self._schema.names)
        self._origins = origins(node)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        self._adopted = Progress()  # what another operator has promised before this one

    def _built(self, tree: Joined, join: Node, asked: Asked | None) -> _Part:
        assert isinstance(join, Join)
        leaves = any(isinstance(each, JoinInput) for each in tree.parts)
        own = asked if leaves else None  # results are never late
        operator = OaJoin(join, own) if len(tree.parts) == 2 else MultiwayJoin(join, own)
        part = _Part(operator)
        for port, (each, branch) in enumerate(zip(tree.parts, join.branches, strict=True)):
            part.inputs.append(self._input(part, port, each, branch, asked))
        self._parts.append(part)
        return part

    def _input(
        self, part: _Part, port: int, tree: JoinTree, branch: Node, asked: Asked | None
    ) -> int | _Part:
        if isinstance(tree, JoinInput):
            self._ways[tree.number] = part, port
            return tree.number
        below = self._built(tree, branch, asked)
        below.above, below.port = part, port
        return below

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        """If there are very many results, they are made when somebody takes them."""
        given, ticks, late = self._inputs.in_time(port, batch)
        items: list[Item] = [*late]
        given, times = self._inputs.with_keys(port, given, ticks)
        if not given.num_rows:
            return items
        self._kept[port].add(given.rows, times)
        results, made = self._met(*self._ways[port], given), 0
        for each in results:
            items.append(each)
            made += each.num_rows if isinstance(each, Batch) else 0
            if made > _MANY:
                return chain(items, results)
        return items

    def _met(self, part: _Part, port: int, batch: Batch) -> Iterator[Item]:
        """What comes of tuples, or of combinations, on the way to the top."""
        for item in part.operator.on_batch(port, batch):
            yield from self._above(part, item)

    def _above(self, part: _Part, item: Item) -> Iterator[Item]:
        assert not isinstance(item, LateRows), "late tuples are set aside before"
        if part.above is None:
            yield self._row(item) if isinstance(item, Batch) else item
        elif isinstance(item, Batch):
            yield from self._met(part.above, part.port, item)
        else:
            for each in part.above.operator.on_progress(part.port, item):
                yield from self._above(part.above, each)

    def _row(self, item: Batch) -> Batch:
        """The columns of all inputs as they stand."""
        columns = [item.rows.column(place) for place in self._order]
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    # --- progress --------------------------------------------------------------------------------

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        """Batches are there at once; only what there are very many of is made later."""
        items = list(self._passed(port, progress))
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

    def _passed(self, port: int, progress: Progress) -> Iterator[Item]:
        self._high |= {k: v for k, v in progress.high.items() if k in self._names}
        if self._progress.advance(port, progress, self._inputs.final(port, progress)):
            for other, kept in enumerate(self._kept):
                if other != port:
                    kept.forget(self._progress.limit(other))
        part, own = self._ways[port]
        for item in part.operator.on_progress(own, progress):
            yield from self._above(part, item)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        """Tuples, and what the containers hold."""
        containers = sum(part.operator.rows_held() for part in self._parts)
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
        self._go_on(given, Progress.load(saved["promised"], self._origins))

    def kept(self, port: int) -> Iterator[pa.RecordBatch]:
        """The tuples of an input that may be in a result to come."""
        return self._kept[port].rows()

    def export(self) -> JoinState:
        kept = tuple(tuple(self.kept(port)) for port in range(len(self._kept)))
        given = self._progress.given(self._high, self._inputs.columns)
        return JoinState(kept, tuple(() for _ in kept), (), given, self._promised)

    def adopt(self, state: JoinState) -> None:
        for port, several in enumerate(state.kept):
            for rows in several:
                self._kept[port].add(rows, self._inputs.ticks(port, rows))
        self._go_on(state.progress, state.promised)

    def _go_on(self, given: tuple[Progress, ...], promised: Progress) -> None:
        """From the tuples that are kept: containers are filled, and all results that there are have
        been given out before."""
        kept = tuple(tuple(self._contents(each)) for each in self._top.inputs)
        nothing = tuple(Progress() for _ in kept)
        empty = tuple(() for _ in kept)
        self._top.operator.adopt(JoinState(kept, empty, (), nothing, Progress()))
        for port, progress in enumerate(given):
            for _ in self._passed(port, progress):
                pass
        self._promised = self._adopted = promised

    def _contents(self, part: int | _Part) -> Iterator[pa.RecordBatch]:
        """Of an input, or of a container."""
        if isinstance(part, int):
            yield from self._kept[part].rows()
            return
        for port, each in enumerate(part.inputs):
            for rows in self._contents(each):
                for item in part.operator.on_batch(port, Batch(rows)):
                    assert isinstance(item, Batch)
                    yield item.rows
