"""The order-preserving, input-buffered join of section 7.3 (OPIB-Join): tuples of the input that
results are in the order of wait until all of their partners have come, and are joined in order.

It keeps tuples where the output-buffered join keeps results, so it takes less room where a tuple
has many partners.
"""

from __future__ import annotations

from penstock.operators.joins.ordered.ordered_join import OrderedJoin
from penstock.plan.nodes.joins import Join


class OpibJoin(OrderedJoin):
    """In the order of the time of one input; the thesis takes the first."""

    def __init__(self, node: Join, port: int | None = None) -> None:
        """Without a port, that of a state which is loaded is as good."""
        super().__init__(node, node.attributes[port or 0 :][:1], any_order=port is None)

    def waits(self, port: int) -> bool:
        return port in self.order.ports
