"""What all OVER in the order of time has: rows wait for the bound, and then come by partition."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.operators.batch import Batch
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.operator import Base, Item, at_once
from penstock.operators.over.promises import Promises
from penstock.operators.over.row_order import RowOrder
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.waiting import WaitingRows
from penstock.physical.asked import Asked
from penstock.plan.nodes.over import Over
from penstock.state.chunks import ChunkStore, Tree


class Partitioned(Base):
    def __init__(self, node: Over, asked: Asked | None) -> None:
        given = node.input.schema
        self._node = node
        self._schema = node.schema.arrow
        self._names = given.arrow.names
        self._in_time = in_time_of(list(node.times), node.input, asked)
        self._promises = Promises(node, asked)
        self._waiting = WaitingRows()
        self._partition = [compile_expression(each, given) for each in node.partition]
        self._keys = KeyCodes([each.type for each in node.partition])
        self._order = RowOrder(node, given)
        self._peers = 0  # how many kinds of rows there have been

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        rows, ticks, late = self._in_time.split(batch)
        yield from late
        self._promises.wait(rows, ticks[0])
        self._waiting.add(rows, ticks[0])

    def _codes(self, rows: pa.RecordBatch) -> Codes:
        """Numbers of the partitions of rows."""
        return self._keys.encode([column(rows) for column in self._partition], rows.num_rows)

    def _sort(self, rows: pa.RecordBatch, codes: Codes, ticks: Ints) -> tuple[Ints, Ints]:
        """The places of rows in their order, and numbers that peers share, which no row before has
        had."""
        order = self._order.sort(rows, codes, ticks)
        peers = order.peers + self._peers
        self._peers = int(peers[-1]) + 1
        return order.places, peers

    # --- state -----------------------------------------------------------------------------------

    def _save(self, store: ChunkStore, **more: Tree) -> None:
        self._keys.save(store)
        self._waiting.save(store)
        store.put("run", {"peers": self._peers, "promises": self._promises.save(), **more})

    def _load(self, store: ChunkStore) -> Tree | None:
        """What has been saved of the run; None: nothing has been saved."""
        saved = store.get("run")
        if saved is not None:
            self._peers = saved["peers"]
            self._promises.load(saved["promises"])
            self._keys.load(store)
            self._waiting.load(store, self._names)
        return saved
