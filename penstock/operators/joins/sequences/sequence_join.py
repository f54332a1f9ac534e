"""What both modes of a sequence share: tuples of both inputs wait until it is decided which belong
together; pairs leave, and tuples without a partner where they are asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import INT64_MAX
from penstock.operators.batch import Batch
from penstock.operators.joins.sequences.equal_keys import NO_KEY
from penstock.operators.joins.sequences.pool import Pool
from penstock.operators.joins.sequences.sequence_condition import SequenceCondition
from penstock.operators.joins.timed_inputs import TimedInputs, promised_on
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.ticks import to_ticks
from penstock.physical.asked import Asked
from penstock.plan.identity.identity import origins
from penstock.plan.nodes.sequence import Sequence
from penstock.state.chunks import ChunkStore, Within

FIRST, SECOND = 0, 1
NOBODY = -1  # instead of the number of a partner


class SequenceJoin(Base):
    """With `in_order`, whoever gets the rows counts them: they leave in the order in which they are
    known, second tuples by time and first ones without a partner when WITHIN has passed."""

    def __init__(self, node: Sequence, asked: Asked | None = None, in_order: bool = False) -> None:
        self.schema = node.schema.arrow
        self.within = node.within
        self.keeps = node.keeps
        self.in_order = in_order
        self.condition = SequenceCondition(node)
        self.first, self.second = Pool(node.first.schema.arrow), Pool(node.second.schema.arrow)
        self._nodes = (node.first, node.second)
        self._places = [
            (attribute.position(each.schema), attribute.type)
            for attribute, each in zip(node.attributes, self._nodes, strict=True)
        ]
        self._attributes = [
            (attribute.position(node.schema), attribute.type) for attribute in node.attributes
        ]
        self._progressing = [each.field.qualified for each in node.progress]
        self._inputs = TimedInputs(self._nodes, node.attributes, asked)
        self._origins = origins(node)
        self._promised = Progress()

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given, ticks, late = self._inputs.split(port, batch)
        yield from late
        rows = given.rows
        codes = self.condition.codes(port, rows)
        if not self.keeps[port] and (codes == NO_KEY).any():
            kept = codes != NO_KEY
            rows, codes, ticks = rows.filter(pa.array(kept)), codes[kept], ticks[kept]
        if rows.num_rows:
            self._pool(port).add(rows, codes, ticks)
            if port == SECOND and int(ticks.min()) < self._decided():
                yield from self._release()

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._inputs.pass_(port, progress)
        yield from self._release()
        places = self.condition.keys.forget(*self._codes())
        if places is not None:
            self._renumber(places)
        promised = self._promise()
        if promised != self._promised:
            self._promised = promised
            yield promised

    def _pool(self, port: int) -> Pool:
        return (self.first, self.second)[port]

    # --- bounds ----------------------------------------------------------------------------------

    @abstractmethod
    def _decided(self) -> Bound:
        """Below which time the partners of second tuples are settled."""

    @property
    def bounds(self) -> list[Bound]:
        return self._inputs.bounds

    def _undecided(self) -> Bound:
        """Below which time no second tuple is left that could ask for a partner."""
        bound = self._decided() if self.in_order else self.bounds[SECOND]
        return min(bound, self.second.lowest())

    def _too_old(self) -> Bound:
        """Below which time first tuples are too old for any second tuple to come, by WITHIN or for
        want of such."""
        undecided = self._undecided()
        if undecided in (BEGINNING, END):
            return undecided
        return BEGINNING if self.within is None else undecided - self.within

    def _promise(self) -> Progress:
        """Pairs to come have a second tuple that waits or comes, and a first one that is not too
        old for it; so has a first one that leaves alone, unless it has not come yet."""
        high = {name: high for name, high in self._inputs.high.items() if name in self.schema.names}
        if self._inputs.ended:
            return Progress({}, high, ended=True)
        first = self._too_old()
        if self.keeps[FIRST]:
            first = min(first, self.bounds[FIRST])
        bounds: dict[str, Bound] = {}
        second = min(self.bounds[SECOND], self.second.lowest())
        for bound, (place, sql_type) in zip((first, second), self._attributes, strict=True):
            name = self.schema.names[place]
            if name in self._progressing:
                bounds |= promised_on(name, bound, sql_type)
        return Progress(bounds, high)

    # --- pairs -----------------------------------------------------------------------------------

    def _release(self) -> Iterator[Item]:
        gone = [self._outdated()]  # what comes next relies on it
        numbers = partners = np.zeros(0, np.int64)
        due = self.second.upto(self._decided() - 1)
        if due.any():
            numbers, partners = self._paired(due)
            self.second.remove(due)
            used = partners[partners >= 0]
            if self.keeps[FIRST]:
                self.first.rows.mark(used)
            gone += [self._used(used), self._outdated()]
        forgotten = np.concatenate(gone)
        alone = np.zeros(0, np.int64)
        if self.keeps[FIRST] and len(forgotten):
            alone = forgotten[~self.first.rows.marked(forgotten)]
        first, second = partners, numbers
        if not self.keeps[SECOND]:
            first, second = partners[partners >= 0], numbers[partners >= 0]
        if len(first) or len(alone):
            nobody = np.full(len(alone), NOBODY)
            yield self._rows(np.concatenate([alone, first]), np.concatenate([nobody, second]))
        self.second.rows.forget(numbers)
        self.first.rows.forget(forgotten)

    @abstractmethod
    def _paired(self, due: Mask) -> tuple[Ints, Ints]:
        """The numbers of second tuples that are decided, and of their partners."""

    @abstractmethod
    def _used(self, partners: Ints) -> Ints:
        """The first tuples that are used up by having found a partner."""

    @abstractmethod
    def _outdated(self) -> Ints:
        """The first tuples that no second tuple to come can ask for, taken out of the pool."""

    def _rows(self, first: Ints, second: Ints) -> Batch:
        if self.in_order:
            order = self._order(first, second)
            first, second = first[order], second[order]
        columns = self.first.rows.columns(first) + self.second.rows.columns(second)
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _order(self, first: Ints, second: Ints) -> Ints:
        """By the time at which a row is known; among those of one time, first tuples without a
        partner before second ones, and each by their values."""
        alone = second < 0
        times = np.empty(len(first), np.int64)
        ranks = np.empty(len(first), np.int64)
        times[~alone] = self._ticks(SECOND, second[~alone])
        ranks[~alone] = self.second.ranks(second[~alone])
        if alone.any():
            assert self.within is not None
            longer = self.within + 1
            times[alone] = np.minimum(self._ticks(FIRST, first[alone]), INT64_MAX - longer) + longer
            ranks[alone] = self.first.ranks(first[alone])
        return np.lexsort((ranks, ~alone, times))

    def _ticks(self, port: int, numbers: Ints) -> Ints:
        place, sql_type = self._places[port]
        (column,) = self._pool(port).rows.columns(numbers, [place])
        return to_ticks(column, sql_type)

    # --- state -----------------------------------------------------------------------------------

    def _codes(self) -> tuple[Codes, ...]:
        """The keys of all tuples that are kept."""
        return self.first.codes, self.second.codes

    def _renumber(self, places: Codes) -> None:
        for pool in (self.first, self.second):
            pool.codes = places[pool.codes]

    def rows_held(self) -> int:
        return len(self.first.rows) + len(self.second.rows)

    def open_results(self) -> OpenResults:
        """Second tuples that wait, and first ones that may have to leave alone."""
        alone = len(self.first.rows) if self.keeps[FIRST] else 0
        return OpenResults(others=len(self.second) + alone)

    def save(self, store: ChunkStore) -> None:
        self.first.save(Within(store, "first/"))
        self.second.save(Within(store, "second/"))
        store.put("run", self._inputs.save(self._origins))

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._inputs.load(saved, self._origins)
        for port, name in enumerate(("first/", "second/")):
            self._pool(port).load(Within(store, name), partial(self._of_rows, port))
        self._promised = self._promise()

    def _of_rows(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Ints]:
        place, sql_type = self._places[port]
        return self.condition.codes(port, rows), to_ticks(rows.column(place), sql_type)
