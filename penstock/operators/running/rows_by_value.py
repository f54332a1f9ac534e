"""Rows of a running aggregate that may be taken back, kept by their values: what is left of a group
is folded anew whenever it changes.  That is for aggregates that cannot be subtracted, such as max.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints, Mask
from penstock.model.first_rows import different
from penstock.operators.folding.folder import Folder
from penstock.operators.folding.key_expiry import DeadKeys
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.folding.scatter import grown
from penstock.operators.running.contents import Change, GroupContents
from penstock.operators.running.rows_by_group import RowsByGroup
from penstock.operators.ticks import to_ticks
from penstock.plan.nodes.aggregates import GroupAggregate
from penstock.state.chunks import ChunkStore, Within, required

_BLOCK = 4096  # counts that are saved together


class RowsByValue(GroupContents):
    def __init__(self, node: GroupAggregate, folder: Folder) -> None:
        super().__init__(folder)
        schema = node.input.schema
        self._schema = schema.arrow
        self._types = [field.type for field in schema]
        time = node.time
        self._time = None if time is None else (compile_expression(time, schema), time.type)
        self._rows = KeyCodes(self._types)
        self._counts: Ints = np.zeros(0, np.int64)  # how often each of them is there
        self._groups = RowsByGroup()  # the groups of rows
        self._totals: Ints = np.zeros(0, np.int64)  # rows of every group
        self._touched: set[int] = set()
        self._blocks = 0
        self._dead = DeadKeys(folder)

    @property
    def rows_held(self) -> int:
        return int(self._counts[: len(self._rows)].sum())

    def take_in(self, change: Change) -> None:
        known = len(self._rows)
        codes = self._rows.encode(change.batch.columns, change.batch.num_rows)
        self._counts = grown(self._counts, len(self._rows), 0)
        signs = np.ones(len(codes), np.int64) if change.signs is None else change.signs
        np.add.at(self._counts, codes, signs)
        if len(self._rows) > known:
            groups: Codes = np.zeros(len(self._rows) - known, np.int64)
            fresh = codes >= known
            groups[codes[fresh] - known] = change.rows.codes[fresh]
            self._groups.add(groups)
        self._totals = grown(self._totals, len(self), 0)
        np.add.at(self._totals, change.rows.codes, signs)
        self._touched.update(different(codes // _BLOCK).tolist())

    def present(self, codes: Codes) -> Codes:
        self._totals = grown(self._totals, len(self), 0)
        return codes[self._totals[codes] > 0]

    def results(self, codes: Codes) -> list[pa.Array]:
        kept = self._groups.of(codes)
        kept = kept[self._counts[kept] > 0]
        kept = np.repeat(kept, self._counts[kept])
        rows = pa.RecordBatch.from_arrays(self._rows.take(kept), schema=self._schema)
        positions: Ints = np.zeros(len(kept), np.int64)
        if self._time is not None:
            time, sql_type = self._time
            positions = to_ticks(time(rows), sql_type)
        given = self.folder.rows(rows, positions)
        given.codes = np.searchsorted(codes, given.codes)
        partials = self.folder.folded(given, max(1, len(codes)))
        return self.folder.results(partials, np.arange(len(codes)))

    def forget(self, renumbered: Callable[[Codes], None]) -> None:
        """Rows that are not there any more, and groups without rows."""

        def mark(live: Mask) -> None:
            live[self.present(np.arange(len(live)))] = True

        def renumber(codes: Codes, place: Codes) -> None:
            self._totals = self._totals[codes]
            self._only_present(place)
            renumbered(place)

        self._dead.forget(mark, renumber)
        size = len(self._rows)
        if size >= 2 * max(2048, int(np.count_nonzero(self._counts[:size]))):
            self._only_present(np.arange(len(self)))

    def _only_present(self, place: Codes) -> None:
        kept = np.flatnonzero(self._counts[: len(self._rows)])
        groups = place[self._groups.groups[kept]]
        self._rows, self._counts = self._rows.only(kept), self._counts[kept]
        self._groups = RowsByGroup()
        self._groups.add(groups)
        self._touched = set(range(self._needed))

    @property
    def _needed(self) -> int:
        return -(-len(self._rows) // _BLOCK)

    def save(self, store: ChunkStore) -> None:
        self.folder.keys.save(store)
        self._rows.save(Within(store, "rows/"))
        for block in sorted(each for each in self._touched if each < self._needed):
            which = np.s_[block * _BLOCK : min(len(self._rows), (block + 1) * _BLOCK)]
            counts = {"counts": self._counts[which], "groups": self._groups.groups[which]}
            store.put(f"counts/{block}", counts)
        for block in range(self._needed, self._blocks):
            store.drop(f"counts/{block}")
        self._blocks = self._needed
        self._touched.clear()

    def load(self, store: ChunkStore) -> None:
        self.folder.keys.load(store)
        self._rows.load(Within(store, "rows/"))
        self._blocks = self._needed
        saved = [required(store, f"counts/{block}") for block in range(self._blocks)]
        if saved:
            self._counts = np.concatenate([each["counts"] for each in saved])
            self._groups.add(np.concatenate([each["groups"] for each in saved]))
        self._totals = np.zeros(max(1, len(self)), np.int64)
        np.add.at(self._totals, self._groups.groups, self._counts)
