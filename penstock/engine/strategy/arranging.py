"""Which strategy each node of a graph has: the one of all, or another for some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.engine.strategy.strategy import Strategy
from penstock.engine.strategy.table import TableNode, put_in_place


class Arrangement:
    """Nodes are known by their names."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._of_nodes: dict[str, Strategy] = {}
        self.watched = False  # by somebody who wants each execution to be a step of its own

    def use(self, strategy: Strategy, names: Iterable[str]) -> None:
        self._of_nodes |= dict.fromkeys(names, strategy)

    def forget(self, name: str) -> None:
        self._of_nodes.pop(name, None)

    def arrange(self, nodes: Sequence[TableNode]) -> None:
        """Give nodes the rules for where they stand."""
        put_in_place(nodes, self._of)
        if self.watched:
            for node in nodes:
                node.hands_over = False

    def _of(self, node: TableNode) -> Strategy:
        return self._of_nodes.get(node.name, self._strategy)
