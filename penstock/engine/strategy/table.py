"""The state table: which rule leads on from which node.  It is data, and can be changed between any
two steps; EXPLAIN shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.strategy.rules import RULES, Rule
from penstock.engine.strategy.strategy import Strategy

_HEAD = ("state", "pred", "succ", "transition")


class TableNode(Protocol):
    """What a node has to say for the table, and gets from it."""

    name: str
    rule: Rule
    transition: str
    step: int
    hands_over: bool
    broken_off: bool

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

    def cells(self) -> tuple[str, str, str, str]:
        pred, succ = (", ".join(each) or "-" for each in (self.predecessors, self.successors))
        return self.state, pred, succ, self.transition


@dataclass(frozen=True, slots=True)
class StateTable:
    rows: tuple[TableRow, ...]

    def __str__(self) -> str:
        cells = [_HEAD, *(row.cells() for row in self.rows)]
        widths = [max(len(each[column]) for each in cells) for column in range(len(_HEAD))]
        lines = ["  ".join(map(str.ljust, each, widths)).rstrip() for each in cells]
        return "\n".join(lines)


def put_in_place(nodes: Sequence[TableNode], strategy_of: Callable[[TableNode], Strategy]) -> None:
    """Give every node the rule that its strategy has for where it stands."""
    for node in nodes:
        strategy = strategy_of(node)
        name = strategy.rule(
            source=not _before(node), sink=not _behind(node), fork=len(_behind(node)) > 1
        )
        node.transition, node.rule, node.step = name, RULES[name], strategy.step
        node.hands_over = strategy.hands_over and not node.broken_off


def state_table(nodes: Sequence[TableNode]) -> StateTable:
    return StateTable(tuple(_rows(nodes)))


def _rows(nodes: Sequence[TableNode]) -> Iterator[TableRow]:
    for node in nodes:
        before, behind = (tuple(each.name for each in some(node)) for some in (_before, _behind))
        yield TableRow(node.name, before, behind, node.transition, node.step)


def _before(node: TableNode) -> list[TableNode]:
    return [each for each in node.predecessors if not each.broken_off]


def _behind(node: TableNode) -> Sequence[TableNode]:
    return [] if node.broken_off else node.successors
