"""The library of rules for the selection of the next operator, by their names.

A rule asks whether the current operator `yields` (something waits for its successors) and whether
there is `more` for it to do, and is told whether it is `full`: it has handled as many tuples as it
may at a stretch.  Next to a sink, results have left already; at a source, nobody is left to go back
to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from penstock.engine.strategy.moves import Move


class CurrentNode(Protocol):
    """What a rule wants to know of the current node."""

    @property
    def yields(self) -> bool: ...

    @property
    def more(self) -> bool: ...


Rule: TypeAlias = Callable[[CurrentNode, bool], Move]

_FORWARD, _ENCORE, _BACKTRACK, _EXIT = Move


def dfs_nos(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _FORWARD if node.yields else _ENCORE if node.more else _BACKTRACK


def dfs_source(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _FORWARD if node.yields else _ENCORE if node.more else _EXIT


def sink(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _ENCORE if node.more else _BACKTRACK


def source_sink(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _ENCORE if node.more else _EXIT


def bfs_nos(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _ENCORE if node.more else _FORWARD if node.yields else _BACKTRACK


def bfs_source(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _ENCORE if node.more else _FORWARD if node.yields else _EXIT


def batch_nos(node: CurrentNode, full: bool) -> Move:
    return _ENCORE if node.more and not full else _FORWARD if node.yields else _BACKTRACK


def batch_source(node: CurrentNode, full: bool) -> Move:
    if node.more and not full:
        return _ENCORE
    return _FORWARD if node.yields else _ENCORE if node.more else _EXIT


def rr_sink(node: CurrentNode, full: bool) -> Move:  # noqa: ARG001
    return _ENCORE if node.more else _EXIT


RULES: Mapping[str, Rule] = {
    "DFS-NOS": dfs_nos,
    "DFS-Fork": dfs_nos,  # whose turn it is among the successors, the buffer knows
    "DFS-Source": dfs_source,
    "DFS-Sink": sink,
    "DFS-Source-Sink": source_sink,
    "Chain-NOS": dfs_nos,  # depth first within a segment; the scheduler chooses the segment
    "Chain-Fork": dfs_nos,
    "Chain-Source": dfs_source,
    "Chain-Sink": sink,
    "Chain-Source-Sink": source_sink,
    "BFS-NOS": bfs_nos,
    "BFS-Fork": bfs_nos,
    "BFS-Source": bfs_source,
    "BFS-Sink": sink,
    "BFS-Source-Sink": source_sink,
    "RR-NOS": bfs_source,
    "RR-Fork": bfs_source,
    "RR-Source": bfs_source,
    "RR-Sink": rr_sink,
    "RR-Source-Sink": source_sink,
    "DFSk-NOS": batch_nos,
    "DFSk-Fork": batch_nos,
    "DFSk-Source": batch_source,
    "DFSk-Sink": sink,
    "DFSk-Source-Sink": source_sink,
}
