"""Rules for the selection of the next operator (the NOS rules), the strategies made of them, and
the state table that says which rule each node has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from penstock.errors import EngineError, nearest


class Move(Enum):
    """The move after the execution of an operator, as a rule decides it."""

    FORWARD = "forward"  # to a successor for which something waits
    ENCORE = "encore"  # once more
    BACKTRACK = "backtrack"  # to the predecessor whose output is waited for, without executing it
    EXIT = "exit"  # back to the scheduler


# The NOS rules (next operator selection), by their names.
#
# A rule asks whether the current operator `yields` (something waits for its successors) and
# whether there is `more` for it to do, and is told whether it is `full`: it has handled as many
# tuples as it may in one step.  Next to a sink, results have left already; at a source, there is no
# predecessor to backtrack to.


class CurrentNode(Protocol):
    """The part of a node that a rule sees."""

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
    "DFS-Fork": dfs_nos,  # the buffer knows which successor's turn it is
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


# Strategies: families of rules, and how many tuples an operator may handle in one step.

MOST = 1 << 16  # tuples in one step: enough to make the step itself cheap
CROWDED = 1 << 16  # rows that may wait before memory decides what runs first
_FAMILIES = {"dfs": "DFS", "bfs": "BFS", "rr": "RR", "chain": "Chain"}
_TEXT = re.compile(r"(\w+)(?:\s+(\d+))?")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy: a family of rules and the size of a step.  With `most` None, an operator takes
    all that waits for it: a single tuple under low load, large batches under high load.
    Depth-first with a number is k-tuple batching.  Chain is depth-first until more rows wait than
    its `limit`; then those segments run first in which rows become fewer fastest.

    >>> Strategy.of("bfs"), Strategy.of("dfs 100").family, Strategy.of("chain 500").limit
    (Strategy(family='BFS', most=None, limit=None), 'DFSk', 500)
    """

    family: str = "DFS"
    most: int | None = None
    limit: int | None = None

    @staticmethod
    def of(text: str) -> Strategy:
        match = _TEXT.fullmatch(text.strip().lower())
        if match is None or match[1] not in _FAMILIES or match[2] == "0":
            close = nearest(text, list(_FAMILIES))
            raise EngineError(
                f"there is no strategy called {text!r}",
                expected="dfs, bfs or rr, and how many tuples a step may take, if not all; or chain"
                " and how many rows may wait",
                hint=close[0] if close else "'dfs 100'",
            )
        family, most = _FAMILIES[match[1]], match[2]
        if family == "Chain":
            return Strategy(family, limit=CROWDED if most is None else int(most))
        if most is None:
            return Strategy(family)
        return Strategy("DFSk" if family == "DFS" else family, int(most))

    @property
    def step(self) -> int:
        return MOST if self.most is None else self.most

    @property
    def hands_over(self) -> bool:
        """Whether output goes on at once, as depth-first does.  Then a small batch need not wait in
        a buffer for the next step, which would be that of its reader."""
        return self.family in ("DFS", "Chain")

    def rule(self, source: bool, sink: bool, fork: bool) -> str:
        """Name of the rule for a node, given its place in the graph."""
        if source and sink:
            return f"{self.family}-Source-Sink"
        if source or sink:
            return f"{self.family}-{'Source' if source else 'Sink'}"
        return f"{self.family}-{'Fork' if fork else 'NOS'}"

    def __str__(self) -> str:
        family = "DFS" if self.family == "DFSk" else self.family
        number = self.most if self.limit is None else self.limit
        return family.lower() if number is None else f"{family.lower()} {number}"


# The state table: the rule of every node.  It is data, and can be changed between any two steps;
# EXPLAIN shows it.

_HEAD = ("state", "pred", "succ", "transition")


class TableNode(Protocol):
    """A node as the state table sees it: its neighbours, and the settings that the table gives
    it."""

    name: str
    rule: Rule
    transition: str
    step: int
    hands_over: bool
    memory_limit: int | None

    @property
    def is_break(self) -> bool: ...

    @property
    def predecessors(self) -> Sequence[TableNode]: ...

    @property
    def successors(self) -> Sequence[TableNode]: ...


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the state table: a node, its neighbours, and its rule (the transition)."""

    state: str
    predecessors: tuple[str, ...]
    successors: tuple[str, ...]
    transition: str
    most: int  # tuples in one step
    limit: int | None = None  # rows that may wait before memory decides what runs first

    def cells(self) -> tuple[str, str, str, str]:
        pred, succ = (", ".join(each) or "-" for each in (self.predecessors, self.successors))
        steps = "" if self.most >= MOST else f", k = {self.most:,}"
        return self.state, pred, succ, f"{self.transition}{steps}"


@dataclass(frozen=True, slots=True)
class StateTable:
    """The state table of a graph, or of the part that serves one query."""

    rows: tuple[TableRow, ...]

    def __str__(self) -> str:
        cells = [_HEAD, *(row.cells() for row in self.rows)]
        widths = [max(len(each[column]) for each in cells) for column in range(len(_HEAD))]
        lines = ["  ".join(map(str.ljust, each, widths)).rstrip() for each in cells]
        limits = [row.limit for row in self.rows if row.limit is not None]
        if limits:
            lines.append(f"more than {min(limits):,} rows wait: the steepest segment first")
        return "\n".join(lines)


def _assign_rules(nodes: Sequence[TableNode], strategy_of: Callable[[TableNode], Strategy]) -> None:
    """Give every node the rule that its strategy has for its place in the graph."""
    for node in nodes:
        strategy = strategy_of(node)
        behind = _behind(node)
        name = strategy.rule(source=not _before(node), sink=not behind, fork=len(behind) > 1)
        node.transition, node.rule, node.step = name, RULES[name], strategy.step
        node.hands_over = strategy.hands_over and not node.is_break
        node.memory_limit = strategy.limit


def state_table(nodes: Sequence[TableNode]) -> StateTable:
    return StateTable(tuple(_rows(nodes)))


def _rows(nodes: Sequence[TableNode]) -> Iterator[TableRow]:
    for node in nodes:
        before, behind = (tuple(each.name for each in some(node)) for some in (_before, _behind))
        limit = node.memory_limit
        yield TableRow(node.name, before, behind, node.transition, node.step, limit)


def _before(node: TableNode) -> list[TableNode]:
    return [each for each in node.predecessors if not each.is_break]


def _behind(node: TableNode) -> Sequence[TableNode]:
    return [] if node.is_break else node.successors


# The strategies of the nodes of a graph: a common one, and others for some nodes.


class Arrangement:
    """Strategies of nodes, by name."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._of_nodes: dict[str, Strategy] = {}
        self.watched = False  # by a callback, so that each execution is a step of its own

    def use(self, strategy: Strategy, names: Iterable[str]) -> None:
        self._of_nodes |= dict.fromkeys(names, strategy)

    def forget(self, name: str) -> None:
        self._of_nodes.pop(name, None)

    def arrange(self, nodes: Sequence[TableNode]) -> None:
        """Give nodes the rules for their places in the graph."""
        _assign_rules(nodes, self._of)
        if self.watched:
            for node in nodes:
                node.hands_over = False

    def _of(self, node: TableNode) -> Strategy:
        return self._of_nodes.get(node.name, self._strategy)
