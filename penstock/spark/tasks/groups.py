"""What a task knows of the groups that a stream is punctuated for (PUNCTUATED … FOR): of which one
each of its rows is, and what its punctuations promise.

What had been promised before the micro-batch is known to the buckets alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Codes
from penstock.operators.folding.keys import KeyCodes
from penstock.operators.groups.bounds import GroupBounds
from penstock.operators.groups.closed import plain_names
from penstock.operators.operator import Progress
from penstock.plan.expressions import Expression, Named
from penstock.plan.nodes.stateless import Scan
from penstock.spark.tasks.buckets import Router
from penstock.spark.tasks.chain import Chain
from penstock.spark.tasks.messages import GroupsPromised, RowsPiece


class TaskGroups:
    def __init__(self, scan: Scan, chain: Chain, routing: Sequence[Expression]) -> None:
        """`chain` are the steps to where tuples are routed by some keys."""
        stream = scan.stream
        assert stream.progress is not None
        said = stream.progress.group_punctuation
        assert said is not None
        self._positions = [column.position(stream.schema) for column in said.group]
        self._types = [column.type for column in said.group]
        self._keys = KeyCodes(self._types)
        self._told: list[GroupBounds] = []
        self._chain = chain
        self._routing = plain_names([Named("", each) for each in routing])

    def of(self, rows: pa.RecordBatch) -> Codes:
        """The groups of some tuples as they come in, by numbers."""
        columns = [rows.column(position) for position in self._positions]
        return self._keys.encode(columns, rows.num_rows)

    def among(self, pieces: list[RowsPiece]) -> tuple[list[RowsPiece], list[pa.Array]]:
        """Tuples with groups that are numbered among themselves, and those groups."""
        codes = [piece.groups for piece in pieces if piece.groups is not None]
        numbers, of_rows = np.unique(np.concatenate([_NONE, *codes]), return_inverse=True)
        cuts = np.cumsum([len(each) for each in codes])[:-1]
        numbered = zip(pieces, np.split(of_rows, cuts), strict=True) if pieces else ()
        made = [replace(piece, groups=each) for piece, each in numbered]
        return made, self._keys.take(numbers)

    def tell(self, groups: GroupBounds | None) -> None:
        """Punctuations have been read."""
        if groups is not None:
            self._told.append(groups)

    def promised(self, router: Router, buckets: int) -> Iterator[GroupsPromised | None]:
        """What has been promised since the last time, for every bucket: where it goes by nothing
        but what groups are told by, each group is in one of them."""
        told, self._told = self._told, []
        if not told:
            yield from [None] * buckets
            return
        columns = zip(*(each.keys for each in told), strict=True)
        keys = [pa.concat_arrays(list(each)) for each in columns]
        bounds = np.concatenate([ticks for each in told for ticks in each.bounds.values()])
        of_groups = self._buckets(replace(told[0], keys=keys), router)
        for bucket in range(buckets):
            if of_groups is None:
                yield GroupsPromised(keys, bounds)
                continue
            mine = np.flatnonzero(of_groups == bucket)
            taken = [each.take(pa.array(mine)) for each in keys]
            yield GroupsPromised(taken, bounds[mine]) if len(mine) else None

    def _buckets(self, groups: GroupBounds, router: Router) -> Codes | None:
        """The bucket of each group; None if its tuples may be in any."""
        left = self._chain.progress(Progress(groups=groups)).groups
        if left is None or not self._routing or not set(self._routing) <= set(left.columns):
            return None
        by_name = dict(zip(left.columns, left.keys, strict=True))
        return router.hashed([by_name[name or ""] for name in self._routing], len(left))


_NONE = np.zeros(0, np.int64)
