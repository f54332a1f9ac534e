"""Joins without bounds (EMIT CHANGES): every row is kept, and pairs are emitted and retracted as
rows come and go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.expressions.compiler import compile_expression
from penstock.kernel.batch import Batch, Signs, taken_columns
from penstock.kernel.joins.pairing import SharedCodes, UnseenColumns, condition_test
from penstock.kernel.operator import NOTHING_OPEN, Base, Item, OpenResults, Progress, at_once
from penstock.kernel.running.running_rows import KeyedRows, KeyedRun, said
from penstock.kernel.state import ChunkStore, Within
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.types import Schema
from penstock.plan.expressions import Expression, all_of, columns_of
from penstock.plan.nodes.join import JoinKind, RunningJoin, by_risk, equal_keys
from penstock.plan.physical import Asked

# Tests of pairs of rows with equal keys.


class PairTests:
    """The rest of a condition; conditions that may fail come last, and see only pairs for which the
    others hold."""

    def __init__(self, node: RunningJoin, others: list[Expression]) -> None:
        self._tests = [_PairTest(node, each) for each in by_risk(all_of(others)) if each]

    def hold(
        self, rows: pa.RecordBatch, ours: Ints, found: pa.RecordBatch, theirs: Ints, port: int
    ) -> Ints | None:
        """The places of the pairs that join, where `ours` came at a port; None: all of them."""
        kept: Ints | None = None
        for test in self._tests:
            holds = test.of(rows, ours, found, theirs, port)
            ours, theirs = ours[holds], theirs[holds]
            kept = np.flatnonzero(holds) if kept is None else kept[holds]
        return kept


class _PairTest:
    def __init__(self, node: RunningJoin, conditions: list[Expression]) -> None:
        columns = [column for each in conditions for column in columns_of(each)]
        places = sorted({column.position(node.pair_schema) for column in columns})
        schema = Schema(tuple(node.pair_schema.fields[place] for place in places))
        width = len(node.left.schema)
        self._schema = schema.arrow
        self._places = (
            [place for place in places if place < width],
            [place - width for place in places if place >= width],
        )
        self._tests = [condition_test(each, schema) for each in conditions]

    def of(
        self, rows: pa.RecordBatch, ours: Ints, found: pa.RecordBatch, theirs: Ints, port: int
    ) -> Mask:
        sides = ((rows, pa.array(ours)), (found, pa.array(theirs)))
        columns = []
        for side, needed in enumerate(self._places):
            given, places = sides[0] if side == port else sides[1]
            columns += [given.column(place).take(places) for place in needed]
        if columns:
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:  # a condition without columns
            batch = pa.record_batch({"nothing": pa.nulls(len(ours))})
        holds: Mask = np.logical_and.reduce([test(batch) for test in self._tests])
        return holds


# Joins without bounds (EMIT CHANGES): every tuple is kept, and is paired with all that come later.
#
# A pair is emitted as soon as both of its rows have come, and retracted when one of them is.  Rows
# of an outer join are emitted without a partner at once, and retracted when one comes.


class RunningJoinOperator(Base):
    """Running join: keep the rows of both inputs by key; emit and retract pairs, and rows without a
    partner where the join asks for them."""

    def __init__(self, node: RunningJoin, asked: Asked | None = None) -> None:  # noqa: ARG002
        self.node = node
        self.schema = node.schema.arrow
        keys, others = equal_keys(node.left.schema, node.right.schema, node.condition)
        self._keys = [
            [compile_expression(pair[port], each.schema) for pair in keys]
            for port, each in enumerate(node.inputs)
        ]
        self._codes = SharedCodes([left.type for left, _ in keys])
        self._tests = PairTests(node, others)
        self._sides = [KeyedRows(each.schema.arrow, each.takes_back) for each in node.inputs]
        self._ended = [False, False]
        self.unseen = UnseenColumns()

    # --- rows ------------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        if batch.num_rows == 0:
            return
        signs = np.ones(batch.num_rows, np.int8) if batch.signs is None else batch.signs
        codes, equal = self._codes_of(port, batch.rows)
        rows = self.unseen.left_out(port, batch.rows)
        made = _Changes(self, port, rows, signs)
        looking = np.arange(len(codes)) if equal is None else np.flatnonzero(equal)
        for run in self._sides[1 - port].runs:
            made.meet(run, looking, codes[looking])
        made.alone()
        kept = rows if equal is None else rows.take(pa.array(looking))
        own = (codes[looking], signs[looking], made.partners[looking])
        self._sides[port].add(kept, *own)  # those with NULL for a key never have a partner
        batch_said = made.batch()
        if batch_said is not None:
            yield batch_said

    def _codes_of(self, port: int, rows: pa.RecordBatch) -> tuple[Codes, Mask | None]:
        return self._codes.of([column(rows) for column in self._keys[port]], rows.num_rows)

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        self._ended[port] |= progress.ended
        yield Progress(ended=all(self._ended))

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(map(len, self._sides))

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        for port, side in enumerate(self._sides):
            side.save(Within(store, f"side {port}/"))
        store.put("run", self._ended)

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._ended = saved
        for port, side in enumerate(self._sides):
            for run in side.load(Within(store, f"side {port}/")):
                side.resume(run, self._codes_of(port, run.rows)[0])


class _Changes:
    """Changes that follow from the rows of one batch: columns and signs, piece by piece."""

    def __init__(
        self, join: RunningJoinOperator, port: int, rows: pa.RecordBatch, signs: Signs
    ) -> None:
        self._join = join
        self._kind = join.node.kind
        self._port = port
        self._rows = rows
        self._signs = signs
        self.partners: Ints = np.zeros(rows.num_rows, np.int64)
        self._pieces: list[tuple[list[pa.Array], Signs]] = []

    def meet(self, run: KeyedRun, looking: Ints, codes: Codes) -> None:
        """Pair rows with their partners in a run of the other side."""
        had = run.partners.copy() if self._counts(1 - self._port) else None
        for asking, found in run.candidates(codes):
            ours, theirs = looking[asking], found
            holds = self._join._tests.hold(self._rows, ours, run.rows, theirs, self._port)
            if holds is not None:
                ours, theirs = ours[holds], theirs[holds]
            if not len(ours):
                continue
            if self._counts(self._port):
                np.add.at(self.partners, ours, run.signs[theirs])
            if had is not None:
                np.add.at(run.partners, theirs, self._signs[ours])
            if not self._kind.left_alone:
                both = [taken_columns(self._rows, ours), taken_columns(run.rows, theirs)]
                columns = [*both[self._port], *both[1 - self._port]]
                self._pieces.append((columns, self._signs[ours] * run.signs[theirs]))
        if had is not None and (changed := np.flatnonzero(had != run.partners)).size:
            run.counted = True
            self._add_other_unmatched(run, changed, had[changed] == 0, run.partners[changed] == 0)

    def _add_other_unmatched(self, run: KeyedRun, places: Ints, was: Mask, now: Mask) -> None:
        """Emit or retract rows of the other side that have no partner any more, or had none
        before."""
        turned = np.flatnonzero(was != now)
        if not len(turned):
            return
        given = now[turned] if self._kind is not JoinKind.SEMI else was[turned]
        places = places[turned]
        signs = np.where(given, 1, -1).astype(np.int8) * run.signs[places]
        self._append(run.rows.take(pa.array(places)), signs, 1 - self._port)

    def alone(self) -> None:
        """Emit the rows themselves, as far as the join asks for rows without a partner, or for rows
        with one."""
        if not self._counts(self._port):
            return
        without = self.partners == 0
        places = np.flatnonzero(~without if self._kind is JoinKind.SEMI else without)
        if len(places):
            self._append(self._rows.take(pa.array(places)), self._signs[places], self._port)

    def _counts(self, port: int) -> bool:
        """Whether it matters how many partners the rows of a side have."""
        return self._kind.keeps[port] or (self._kind is JoinKind.SEMI and port == 0)

    def _append(self, rows: pa.RecordBatch, signs: Signs, port: int) -> None:
        columns = list(rows.columns)
        if not self._kind.left_alone:
            missing = self._join.node.inputs[1 - port].schema.arrow.types
            nulls = [pa.nulls(rows.num_rows, each) for each in missing]
            columns = [*columns, *nulls] if port == 0 else [*nulls, *columns]
        self._pieces.append((columns, signs))

    def batch(self) -> Batch | None:
        if not self._pieces:
            return None
        schema = self._join.schema
        batches = [pa.RecordBatch.from_arrays(each, schema=schema) for each, _ in self._pieces]
        signs = np.concatenate([each for _, each in self._pieces]).astype(np.int8, copy=False)
        return said(pa.concat_batches(batches) if len(batches) > 1 else batches[0], signs)
