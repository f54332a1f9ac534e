"""The state table: which rule leads on from which node.  It is data, and can be changed between any
two steps; EXPLAIN shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.strategy.rules import RULES, Rule
from penstock.engine.strategy.strategy import MOST, Strategy

_HEAD = ("state", "pred", "succ", "transition")


class TableNode(Protocol):
    """What a node has to say for the table, and gets from it."""

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
    state: str
    predecessors: tuple[str, ...]
    successors: tuple[str, ...]
    transition: str
    most: int  # tuples in one step
    limit: int | None = None  # rows that may wait before memory decides who comes first

    def cells(self) -> tuple[str, str, str, str]:
        pred, succ = (", ".join(each) or "-" for each in (self.predecessors, self.successors))
        steps = "" if self.most >= MOST else f", k = {self.most:,}"
        return self.state, pred, succ, f"{self.transition}{steps}"


@dataclass(frozen=True, slots=True)
class StateTable:
    rows: tuple[TableRow, ...]

    def __str__(self) -> str:
        cells = [_HEAD, *(row.cells() for row in self.rows)]
        widths = [max(len(each[column]) for each in cells) for column in range(len(_HEAD))]
        lines = ["  ".join(map(str.ljust, each, widths)).rstrip() for each in cells]
        limits = [row.limit for row in self.rows if row.limit is not None]
        if limits:
            lines.append(f"more than {min(limits):,} rows wait: the steepest segment first")
        return "\n".join(lines)


def put_in_place(nodes: Sequence[TableNode], strategy_of: Callable[[TableNode], Strategy]) -> None:
    """Give every node the rule that its strategy has for where it stands."""
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
