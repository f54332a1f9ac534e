"""Some tuples of a stream that is in memory, as they look where they are joined."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expressions.compile import compile_expression, compile_predicate
from penstock.plan.nodes.difference import Difference
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project, Scan
from penstock.sources.memory import BatchSource

_ROWS = 16384
_PIECES = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """`passing` is the part of the stream's tuples that are not filtered out on the way."""

    rows: pa.RecordBatch
    passing: float


def sample_of(node: Node) -> Sample | None:
    """Through filters, projections and differences; None where nothing is in memory, or something
    is wrong with it, which is for whoever reads it to say."""
    try:
        return _sample(node)
    except (PenstockError, pa.ArrowException, LookupError):
        return None


def _sample(node: Node) -> Sample | None:
    match node:
        case Scan():
            return _of_scan(node)
        case Filter():
            given = _sample(node.input)
            if given is None or not given.rows.num_rows:
                return given
            kept = given.rows.filter(
                compile_predicate(node.predicate, node.input.schema)(given.rows)
            )
            return Sample(kept, given.passing * kept.num_rows / given.rows.num_rows)
        case Project():
            given = _sample(node.input)
            if given is None:
                return None
            schema = node.input.schema
            made = [
                compile_expression(each.expression, schema)(given.rows) for each in node.columns
            ]
            return Sample(pa.RecordBatch.from_arrays(made, schema=node.schema.arrow), given.passing)
        case Difference():  # as many items as tuples: half of these come and go
            given = _sample(node.left)
            if given is None:
                return None
            since = given.rows.column(node.attributes[0].position(node.left.schema))
            items = [*given.rows.columns, since]
            schema = node.schema.arrow
            return Sample(pa.RecordBatch.from_arrays(items, schema=schema), given.passing)
    return None


def _of_scan(scan: Scan) -> Sample | None:
    stream = scan.stream
    if not isinstance(stream.source, BatchSource) or stream.made:
        return None
    batches = stream.source.batches
    if not isinstance(batches, list) or not any(batch.num_rows for batch in batches):
        return None
    chosen, each = batches, max(batch.num_rows for batch in batches)
    if sum(batch.num_rows for batch in batches) > _ROWS:
        chosen = batches[:: max(1, len(batches) // _PIECES)]
        each = max(1, _ROWS // len(chosen))
    pieces = [batch.slice(0, each).select(stream.schema.names) for batch in chosen]
    table = pa.Table.from_batches(pieces).rename_columns(scan.schema.arrow.names)
    (rows,) = table.cast(scan.schema.arrow).combine_chunks().to_batches()[:1] or [None]
    return None if rows is None else Sample(rows, 1.0)
