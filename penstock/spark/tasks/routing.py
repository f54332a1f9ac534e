"""To which buckets the tuples of a port go: by their keys, or by slices of time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expressions.compile import compile_expression
from penstock.model.arrays import Codes, Ints
from penstock.model.schema import Schema
from penstock.operators.ticks import to_ticks
from penstock.physical.slices import TimeSlices
from penstock.spark.plan.stages import Stage
from penstock.spark.tasks.buckets import Router


class Route(NamedTuple):
    """Some rows of a batch on their way to a bucket.  Rows that go to several are `copies` in all
    but one of them, so that whatever is counted is counted once."""

    bucket: int
    rows: Ints
    copies: bool = False


class PortRouter:
    def __init__(self, stage: Stage, port: int, buckets: int) -> None:
        self.keys = Router(stage.keys(port), stage.schema(port), buckets)
        slices = stage.physical.ports[port].slices
        self._slices = SliceRouter(slices, stage.schema(port), buckets) if slices else None

    def routes(self, rows: pa.RecordBatch) -> Iterator[Route]:
        if self._slices is not None:
            yield from self._slices.routes(rows)
            return
        for bucket, own in by_bucket(self.keys.buckets(rows)):
            yield Route(bucket, own)


class SliceRouter:
    """Slices follow each other round the buckets.  A tuple that goes to several slices comes to
    each bucket once, however many of those the bucket has."""

    def __init__(self, slices: TimeSlices, schema: Schema, buckets: int) -> None:
        self._slices = slices
        self._attribute = compile_expression(slices.attribute, schema)
        self._type = slices.attribute.type
        self._buckets = buckets

    def routes(self, rows: pa.RecordBatch) -> Iterator[Route]:
        ticks = to_ticks(self._attribute(rows), self._type)
        first = self._slices.first(ticks)
        for bucket, own in by_bucket(first % self._buckets):
            yield Route(bucket, own)
        if self._slices.one_each or not len(ticks):
            return
        further = np.minimum(self._slices.last(ticks) - first, self._buckets - 1)
        for step in range(1, int(further.max()) + 1):
            which = np.flatnonzero(further >= step)
            for bucket, own in by_bucket((first[which] + step) % self._buckets):
                yield Route(bucket, which[own], copies=True)


def by_bucket(buckets: Codes) -> Iterator[tuple[int, Ints]]:
    """The positions of each bucket, in order.

    >>> list(by_bucket(np.array([1, 0, 1])))
    [(0, array([1])), (1, array([0, 2]))]
    """
    if len(buckets) == 0:
        return
    if buckets[0] == buckets[-1] and (buckets == buckets[0]).all():
        yield int(buckets[0]), np.arange(len(buckets))
        return
    order = np.argsort(buckets.astype(np.uint16), kind="stable")
    ordered = buckets[order]
    cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for begin, end in pairwise(cuts):
        yield int(ordered[begin]), order[begin:end]
