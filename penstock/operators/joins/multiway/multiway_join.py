"""A join of any number of inputs in one operator, by dataflow expressions: tuples of each input
look for those of the others in an order of their own, and nothing is kept of what is found on the
way.

A tuple meets what has come before it, and is kept for what comes after it: so every result is found
once, by the last of its tuples, whatever the order of arrival and however batches are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.operators.batch import Batch, Signs
from penstock.operators.joins.join_state import JoinState, at_least
from penstock.operators.joins.multiway.combinations import ChosenTuples, Combinations
from penstock.operators.joins.multiway.dataflow import Dataflow
from penstock.operators.joins.multiway.following import in_step
from penstock.operators.joins.multiway.multiway_inputs import MultiwayInputs
from penstock.operators.joins.multiway.multiway_progress import MultiwayProgress
from penstock.operators.joins.multiway.threads import cores, side_by_side
from penstock.operators.joins.pair_lineage import input_lineages
from penstock.operators.joins.partners.tuples import Tuples
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once, by_name, by_origin
from penstock.physical.asked import Asked
from penstock.plan.consistency import Consistency
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.joins import Join
from penstock.state.chunks import ChunkStore, Within

_MANY = 1 << 18  # results that are more than is held in memory at once
_SMALL, _PART = 1 << 11, 1 << 14  # tuples that are worth a thread, and those that it has at a time


class MultiwayJoin(Base):
    """With LATE AMEND, tuples count that are late, so everything is final so much later; nothing is
    ever taken back.  Where a `consistency` is asked for, tuples of a batch look for others side by
    side, in threads: all of them read what was there before the batch."""

    def __init__(
        self, node: Join, asked: Asked | None = None, consistency: Consistency | None = None
    ) -> None:
        self._consistency = consistency
        self._inputs = MultiwayInputs(node, asked)
        self._dataflow = Dataflow(node)
        self._indexes = self._dataflow.indexes
        self._schema = node.schema.arrow
        self._names = set(self._schema.names)
        self._origins = origins(node)
        self._lineages = input_lineages(node)
        self._progress = MultiwayProgress(node)
        self._high: dict[str, Bound] = {}
        self._promised = Progress()
        self._adopted = Progress()  # what another operator has promised before this one

    # --- tuples ----------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterable[Item]:
        """If there are very many results, they are made when somebody takes them, one piece after
        the other."""
        given, ticks, late = self._inputs.in_time(port, batch)
        items: list[Item] = [*late]
        if self._lineages:
            given = Batch(given.rows, given.signs, lineage=self._lineages[port].of(given))
        given, times = self._inputs.with_keys(port, given, ticks)
        if not given.num_rows:
            return items
        self._record(port, given, times)
        results, made = self._results(port, given), 0
        for each in results:
            items.append(each)
            made += each.num_rows
            if made > _MANY:
                return chain(items, results)
        return items

    def _results(self, port: int, given: Batch) -> Iterator[Batch]:
        come = ChosenTuples.all_of(given)
        if self._consistency is None:
            everything = Combinations({port: come}, given.num_rows)
            yield from map(self._made, self._dataflow.run(port, everything))
            return
        at_most, numbers = self._consistency.at_most, np.arange(given.num_rows)

        def found_by(items: Ints) -> list[Batch]:
            some = Combinations({port: come.take(items)}, len(items))
            found = self._dataflow.run(port, some)
            return in_step([(self._made(each), each.chosen[port].rows) for each in found], at_most)

        size = min(_PART, max(_SMALL, -(-given.num_rows // cores())))
        parts = [numbers[begin : begin + size] for begin in range(0, given.num_rows, size)]
        if len(parts) == 1:
            yield from found_by(numbers)
            return
        self._dataflow.settle()
        for found in side_by_side(found_by, parts):
            yield from found

    def _record(self, port: int, given: Batch, ticks: Ints) -> None:
        """Keep what may be in a result with later tuples.  Tuples do not look for others of their
        own input, so it does not matter that they are there before they look for any."""
        limit = self._progress.limit(port)
        if limit != BEGINNING:
            stays = np.flatnonzero(ticks >= limit)
            if len(stays) < len(ticks):
                given, ticks = given.take(stays), ticks[stays]
        if given.num_rows:
            for index in self._indexes[port]:
                index.record(given, ticks)

    def _made(self, found: Combinations) -> Batch:
        """The columns of all inputs as they stand, whoever came last; the sign is the product of
        all signs."""
        chosen = [found.chosen[port] for port in range(len(self._indexes))]
        columns = [column for each in chosen for column in each.columns()]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if not self._lineages:
            return Batch(rows)
        signs: Signs | None = None
        for own in (each.signs() for each in chosen):
            signs = own if signs is None else signs if own is None else signs * own
        parts = [part for part in (each.lineage() for each in chosen) if part is not None]
        return Batch(rows, signs, lineage=np.hstack(parts))

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._high |= {k: v for k, v in progress.high.items() if k in self._names}
        if not self._progress.advance(port, progress, self._inputs.final(port, progress)):
            return
        for other, indexes in enumerate(self._indexes):
            if other != port:
                limit = self._progress.limit(other)
                for index in indexes:
                    index.forget(limit)
        self._dataflow.forget_keys()
        promised = at_least(self._progress.promise(), self._adopted)
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, dict(self._high), promised.ended, joint=promised.joint)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(len(indexes[0]) for indexes in self._indexes)

    def open_results(self) -> OpenResults:
        return OpenResults()

    def save(self, store: ChunkStore) -> None:
        """The tuples of each input once; all indexes follow from them."""
        for port, indexes in enumerate(self._indexes):
            indexes[0].side.save(Within(store, f"{port}/"))
        high = by_origin(self._high, self._origins)
        numbered = [each.came for each in self._lineages]
        store.put("run", {"bounds": self._progress.save(), "high": high, "numbered": numbered})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._progress.load(saved["bounds"])
        self._high = by_name(saved["high"], self._origins)
        self._promised = self._progress.promise()
        for lineage, came in zip(self._lineages, saved["numbered"], strict=True):
            lineage.came = came
        for port, (first, *others) in enumerate(self._indexes):
            first.side.load(Within(store, f"{port}/"), partial(self._tuples, port))
            for batch in first.side.batches():
                for index in others:
                    index.record(batch, self._inputs.ticks(port, batch.rows))

    def kept(self, port: int) -> Iterator[pa.RecordBatch]:
        """The tuples of an input that may be in a result to come."""
        return self._indexes[port][0].side.rows()

    def export(self) -> JoinState:
        """For a join that looks for tuples in another order."""
        kept = tuple(tuple(self.kept(port)) for port in range(len(self._indexes)))
        given = self._progress.given(self._high, self._inputs.columns)
        return JoinState(kept, tuple(() for _ in kept), (), given, self._promised)

    def adopt(self, state: JoinState) -> None:
        for port, several in enumerate(state.kept):
            for rows in several:
                self._record(port, Batch(rows), self._inputs.ticks(port, rows))
        for port, progress in enumerate(state.progress):
            self.on_progress(port, progress)
        self._promised = self._adopted = state.promised

    def _tuples(self, port: int, batch: Batch) -> Tuples:
        rows = self._inputs.named(port, batch.rows)
        return self._indexes[port][0].tuples(batch.with_rows(rows), self._inputs.ticks(port, rows))
