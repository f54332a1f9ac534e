"""The Filter-Order join of the Nile paper, section 5: tuples are joined as they come, and results
wait in a hold buffer until both inputs have come as far.

So the work of joining is done while the slower input is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.joins.ordered.ordered_join import OrderedJoin
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join


class FilterOrderJoin(OrderedJoin):
    """In the order of the latest of some times: of those of both inputs, or as a state that is
    loaded has them, if nothing else is said."""

    def __init__(self, node: Join, by: Sequence[Column] = ()) -> None:
        super().__init__(node, by or node.attributes, any_order=not by)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return False
