"""The order-preserving, output-buffered join of section 7.3 (OPOB-Join): tuples are joined as they
come, and results wait until all that belong before them have left.
"""

from __future__ import annotations

from penstock.operators.joins.ordered.ordered_join import OrderedJoin
from penstock.plan.nodes.joins import Join


class OpobJoin(OrderedJoin):
    """In the order of the time of one input; the thesis takes the first."""

    def __init__(self, node: Join, port: int | None = None) -> None:
        """Without a port, that of a state which is loaded is as good."""
        super().__init__(node, node.attributes[port or 0 :][:1], any_order=port is None)

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return False
