"""What provisional rows are going to meet: the filters and projections between the operator that
gives them and the end of the query.

A row that would fail there is not given out as long as it is not final, as if the aggregate itself
had no value: so the operator tries its results first.  Only it knows what is final.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.errors import RunError
from penstock.model.arrays import Codes
from penstock.operators.batch import Batch
from penstock.operators.folding.folder import Folder
from penstock.operators.revising.emitted import Groups
from penstock.operators.revising.provisional import Provisional, provisional
from penstock.operators.revising.revisions import result_rows
from penstock.operators.stateless.steps import WayOut
from penstock.physical.asked import Steps
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.stateless import Filter, Project
from penstock.plan.properties.can_fail import may_fail

Found = list[tuple[int, Groups]]  # results by window


class Above:
    """The steps that rows take next, as far as one of them may fail."""

    def __init__(self, steps: Steps) -> None:
        self._way = WayOut(steps)

    @staticmethod
    def of(steps: Steps) -> Above | None:
        """None if nothing can fail there."""
        failing = [place for place, (node, _) in enumerate(steps) if _may_fail(node)]
        return Above(steps[: failing[-1] + 1]) if failing else None

    def attempt(self, rows: pa.RecordBatch) -> None:
        """Raise the error of rows that fail, if there are any."""
        if rows.num_rows:
            self._way.through(Batch(rows))

    def tried(
        self, node: WindowAggregate, folder: Folder, found: Iterable[tuple[int, Groups]]
    ) -> Found:
        """The results of windows, without the groups that fail."""
        several = [(wid, groups) for wid, groups in found]
        rows = result_rows(node, folder, several)
        failing = self.failing(rows).failing
        if len(failing) == 0:
            return several
        made, begin = [], 0
        for wid, groups in several:
            inside = (failing >= begin) & (failing < begin + len(groups))
            places = failing[inside] - begin
            if len(places):
                # an error of its own: that of another window may never come to be
                error = self.failing(rows.slice(begin + int(places[0]), 1)).error
                made.append((wid, _without(groups, places, error)))
            else:
                made.append((wid, groups))
            begin += len(groups)
        return made

    def failing(self, rows: pa.RecordBatch) -> Provisional:
        """Which rows fail, by their places."""

        def finish(places: Codes) -> list[pa.Array]:
            self.attempt(rows if len(places) == len(rows) else rows.take(pa.array(places)))
            return []

        return provisional(finish, np.arange(rows.num_rows))


def _without(groups: Groups, places: Codes, error: RunError | None) -> Groups:
    left = groups.take(np.setdiff1d(np.arange(len(groups)), places))
    failing = np.union1d(groups.failing, groups.codes[places])
    return Groups(left.codes, left.columns, failing, groups.error or error)


def _may_fail(node: Node) -> bool:
    match node:
        case Filter():
            return may_fail(node.predicate)
        case Project():
            return any(may_fail(column.expression) for column in node.columns)
    return False
