"""The Sync-Filter join of the Nile paper, section 4: tuples of both inputs are joined in the order
of their times, so each waits until the other input has come as far.

Where the paper waits for the next tuple of the other stream, progress tells here how far it has
come; over streams in order, that is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.joins.ordered.ordered_join import OrderedJoin
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join


class SyncFilterJoin(OrderedJoin):
    """In the order of the latest of some times: of those of both inputs, or as a state that is
    loaded has them, if nothing else is said."""

    def __init__(self, node: Join, by: Sequence[Column] = ()) -> None:
        super().__init__(node, by or node.attributes, any_order=not by)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return True
