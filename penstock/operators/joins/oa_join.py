"""The order-agnostic join of chapter 7 (OA-Join): tuples meet whatever has come of the other input,
leave with their partners at once, and are kept for as long as partners may follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.model.room import ticks_of
from penstock.model.schema import Field
from penstock.operators.batch import Batch, Signs
from penstock.operators.groups.grouped import InTime
from penstock.operators.joins.condition import Condition
from penstock.operators.joins.keys import JoinKeys
from penstock.operators.joins.pairs import Found, Pairs, pairs_of
from penstock.operators.joins.side import Side
from penstock.operators.joins.sorted_run import SortedRun, Tuples
from penstock.operators.open_results import NOTHING_OPEN, OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once, by_name, by_origin
from penstock.operators.ticks import to_ticks
from penstock.plan.identity import origins
from penstock.plan.joins import Join, equal_keys
from penstock.state.chunks import ChunkStore, Within


class OaJoin(Base):
    def __init__(self, node: Join) -> None:
        left, right = node.branches
        keys, others = equal_keys(left.schema, right.schema, node.condition)
        window = node.window.between(0, 1)
        assert window is not None
        self.schema = node.schema.arrow
        self._window = window
        self._keys = JoinKeys(node, keys)
        self._condition = Condition(node, others)
        self._names = [[field.qualified for field in each.schema] for each in node.branches]
        timed = list(zip(node.attributes, node.branches, strict=True))
        self._places = [attribute.position(each.schema) for attribute, each in timed]
        self._types = [attribute.type for attribute in node.attributes]
        self._in_time = [InTime([attribute], each) for attribute, each in timed]
        one, other = (Field(a.name, a.type, a.relation).qualified for a in node.attributes)
        self._attributes = (one, other)
        self._origins = origins(node)
        self._sides = (Side(), Side())
        self._bounds: list[Bound] = [BEGINNING, BEGINNING]
        self._high: dict[str, Bound] = {}
        self._promised = Progress()

    # --- tuples ----------------------------------------------------------------------------------

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:
        given, ticks, late = self._in_time[port].split_signed(batch)
        yield from late
        codes, equal = self._keys.of(port, given.rows)
        came = Tuples(given.rows, codes, ticks[0], given.signs)
        if equal is not None:
            came = came.take(np.flatnonzero(equal))
        if not len(came):
            return
        lows, highs = self._partners(port, came.ticks)
        for pairs in pairs_of(came, self._found(port, came, lows, highs)):
            yield from self._joined(port, self._condition.among(pairs, port))
        self._keep(port, came, lows, highs)

    def _partners(self, port: int, ticks: Ints) -> tuple[Ints, Ints]:
        """From which time to which the partners of tuples are."""
        if port == 0:
            return self._window.partner_columns(ticks)
        return self._window.partner_columns_of_right(ticks)

    def _found(self, port: int, came: Tuples, lows: Ints, highs: Ints) -> list[Found]:
        runs = list(self._sides[1 - port].within(int(lows.min()), int(highs.max())))
        if not runs:
            return []
        order = SortedRun(came).order  # in order, they are found much faster
        codes, lows, highs = came.codes[order], lows[order], highs[order]
        found = []
        for run in runs:
            begins, counts = run.find(codes, lows, highs)
            some = np.flatnonzero(counts)
            if len(some):
                found.append(Found(run, order[some], begins[some], counts[some]))
        return found

    def _joined(self, port: int, pairs: Pairs) -> Iterator[Item]:
        if len(pairs):
            columns = [
                column
                for side, names in enumerate(self._names)
                for column in pairs.columns(range(len(names)), side == port)
            ]
            rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            yield Batch(rows, pairs.signs())

    def _keep(self, port: int, came: Tuples, lows: Ints, highs: Ints) -> None:
        """Those whose partners may still come."""
        bound = self._bounds[1 - port]
        if bound == END:
            return
        stays = highs >= lows
        if bound != BEGINNING:
            stays &= highs >= int(bound)
        side = self._sides[port]
        side.add(came if stays.all() else came.take(np.flatnonzero(stays)))

    # --- progress --------------------------------------------------------------------------------

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:
        (bound,) = self._in_time[port].promised(progress)
        self._bounds[port] = max(bound, self._bounds[port])
        self._high |= {k: v for k, v in progress.high.items() if k in self.schema.names}
        self._sides[1 - port].forget(self._limit(1 - port))
        promised = self._promise()
        if promised != self._promised:
            self._promised = promised
            yield Progress(promised.bounds, dict(self._high), promised.ended, joint=promised.joint)

    def _limit(self, port: int) -> Bound:
        """Below it, tuples of a port have no partners to come."""
        bound = self._bounds[1 - port]
        if bound in (BEGINNING, END):
            return bound
        if port == 0:
            return self._window.partner_bounds_of_right(int(bound))[0]
        return self._window.partner_bounds(int(bound))[0]

    def _promise(self) -> Progress:
        """A later pair has a later tuple of one side: at the bound of it, or as far from that of
        the other as the window lets it be."""
        if all(bound == END for bound in self._bounds):
            return Progress(ended=True)
        bounds: dict[str, Bound] = {}
        for port, name in enumerate(self._attributes):
            bound = min(self._bounds[port], self._limit(port))
            room = ticks_of(self._types[port])
            if bound >= room.low:
                bounds[name] = min(bound, room.high)
        return Progress(bounds, joint=self._jointly())

    def _jointly(self) -> tuple[JointPunctuation, ...]:
        """No later pair is below both bounds.  If these are too far apart for a pair, the bounds on
        single columns say as much."""
        left, right = self._bounds
        if {left, right} & {BEGINNING, END} or not self._window.matches(int(left), int(right)):
            return ()
        return (JointPunctuation(self._attributes, (left, right)),)

    # --- state -----------------------------------------------------------------------------------

    def rows_held(self) -> int:
        return sum(map(len, self._sides))

    def open_results(self) -> OpenResults:
        return NOTHING_OPEN

    def save(self, store: ChunkStore) -> None:
        for port, side in enumerate(self._sides):
            side.save(Within(store, f"{port}/"))
        high = by_origin(self._high, self._origins)
        store.put("run", {"bounds": self._bounds, "high": high})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._bounds, self._high = saved["bounds"], by_name(saved["high"], self._origins)
        self._promised = self._promise()
        for port, side in enumerate(self._sides):
            side.load(Within(store, f"{port}/"), partial(self._tuples, port))

    def _tuples(self, port: int, rows: pa.RecordBatch, signs: Signs | None) -> Tuples:
        # the columns are the same, but may be called something else by now
        rows = rows.rename_columns(self._names[port])
        codes, _ = self._keys.of(port, rows)
        ticks = to_ticks(rows.column(self._places[port]), self._types[port])
        return Tuples(rows, codes, ticks, signs)
