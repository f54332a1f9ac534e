"""Results of several buckets in the order in which one operator would have given them.

Groups leave a window in the order of their keys.  A window that counts rows sees that order, so
what comes to it from several buckets in a micro-batch is merged: every bucket releases the same
windows there.  Rows travel with the columns that say where they belong, because the steps on the
way may drop them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.operators.batch import Batch
from penstock.operators.folding.key_order import sorted_places
from penstock.plan.nodes.aggregates import GroupAggregate, WindowAggregate
from penstock.spark.plan.stages import Stage
from penstock.spark.tasks.messages import Message, RowsPiece
from penstock.windows.session import Session
from penstock.windows.slide_by_tuple import SlideByTuple

_WINDOW_COLUMNS = 3  # before the keys: window_id, window_start, window_end


def order_columns(feeding: Stage, fed: Stage) -> list[int] | None:
    """The columns of results by which the stage that they are fed to wants them merged; None if
    their order makes no difference to it, or has none beyond a bucket."""
    counts = isinstance(fed.node, WindowAggregate) and fed.node.counts_rows
    if not counts or feeding.one_bucket:
        return None
    match feeding.node:
        case WindowAggregate(window=SlideByTuple()) as node:
            # a partition is in one bucket, and gives a window as often as it was opened
            parts = [node.keys.index(node.partition[place]) for place in node.partition_order]
            return [0, *(_WINDOW_COLUMNS + place for place in parts)]
        case WindowAggregate(window=Session()) as node:  # as they end
            return [2, *(_WINDOW_COLUMNS + place for place in node.key_order)]
        case WindowAggregate() as node if not node.counts_rows:
            return [0, *(_WINDOW_COLUMNS + place for place in node.key_order)]
        case GroupAggregate() as node:
            first = node.schema.names.index(node.progress[0].field.name)
            return [first, *node.key_order]
    return None


def placed(given: pa.RecordBatch, columns: list[int], rows: Ints) -> pa.RecordBatch:
    """Where some rows of results belong."""
    arrays = [given.column(column).take(pa.array(rows)) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


def merged(messages: list[Message]) -> list[Message]:
    """The messages of a micro-batch with the rows of each entry in order, all in its last one."""
    found: dict[int, list[RowsPiece]] = {}
    last: dict[int, int] = {}
    for number, message in enumerate(messages):
        pieces = [piece for piece in message.rows if piece.order is not None]
        if pieces:
            found.setdefault(message.entry, []).extend(pieces)
            last[message.entry] = number
    if not found:
        return messages
    made = []
    for number, message in enumerate(messages):
        rows = [piece for piece in message.rows if piece.order is None]
        if last.get(message.entry) == number:
            rows.append(_merged(found[message.entry]))
        made.append(replace(message, rows=rows))
    return made


def _merged(pieces: list[RowsPiece]) -> RowsPiece:
    batch = Batch(pa.concat_batches([piece.batch.rows for piece in pieces]))
    order = pa.concat_batches([piece.order for piece in pieces])
    places = sorted_places(order.columns)
    return RowsPiece(batch if (np.diff(places) > 0).all() else batch.take(places))
