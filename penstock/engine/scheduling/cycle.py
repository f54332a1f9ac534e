"""The two-step cycle: execute the current operator, and select the next one by its rule."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.graph.node import GraphNode
from penstock.engine.strategy.moves import Move

_FORWARD, _ENCORE, _EXIT = Move.FORWARD, Move.ENCORE, Move.EXIT


class Cycle:
    """`executed` is told of every execution, for whoever measures or simulates.  `ask` is where a
    source is asked for an enabling timestamp when going back has led to it; whether there was a new
    one."""

    def __init__(self, executed: Callable[[GraphNode], None] | None = None) -> None:
        self.executed = executed
        self.interrupted = False  # whether somebody wants to have something done between two steps
        self.current: GraphNode | None = None  # the one at work, for whoever asks what has failed
        self.failed: GraphNode | None = None  # where a branch begins in which something has failed
        self.ask: Callable[[GraphNode], bool] | None = None

    def run(self, node: GraphNode) -> GraphNode:
        """From a node that has something to do until a rule says that there is nothing left on the
        way; the node where that was."""
        handled = 0
        while True:
            self.current = node
            handled += node.execute()
            if self.executed is not None:
                self.executed(node)
            if self.interrupted:
                self.current = None
                return node
            while True:
                move = node.rule(node, handled >= node.step)
                if move is _ENCORE:
                    break
                if move is _EXIT:
                    if self.ask is None or not self.ask(node) or not node.yields:
                        self.current = None
                        return node
                    move = _FORWARD
                handled = 0
                if move is _FORWARD:
                    node = node.forward()
                    break
                node = node.backward()
