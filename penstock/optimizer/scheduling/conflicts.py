"""Which operations of dataflow expressions get in each other's way, and what takes that away
(sections 2.4 and 3.2 of Getta and Vossough).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from penstock.optimizer.dataflow.expression import DataflowExpression, Operation

OUT = "w_out"


class Removal(Enum):
    """How a conflict is taken away."""

    TIMESTAMPS = "timestamps"  # an item reads only what came before it
    CONTAINERS = "no containers"  # nothing is kept of what is found on the way
    RAISED = "raised timestamps"  # what is kept of it counts as coming after all who have looked
    ORDER = "relaxed order"  # nobody looks at the output before the end


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two operations, by their numbers, on one window; which has no name if they only have to stay
    in the order of their items."""

    one: int
    other: int
    window: str
    removed_by: Removal


@dataclass(frozen=True)
class Conflicts:
    """Of the operations of some expressions, numbered as they come; operations that are the same,
    like the recorder of the output, are one."""

    expressions: tuple[DataflowExpression, ...]

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The recorders of the output come last, as in the paper."""
        found = dict.fromkeys(
            _plain(each) for expression in self.expressions for each in expression.operations
        )
        return tuple(sorted(found, key=lambda each: each.window == OUT))

    def number(self, operation: Operation) -> int:
        return self.operations.index(_plain(operation))

    @cached_property
    def found(self) -> tuple[Conflict, ...]:
        """An operation is in conflict with itself, because items stay in order; and with others
        that use the same window, if one of them writes it."""
        made = []
        for one, first in enumerate(self.operations):
            for other, second in enumerate(self.operations[one:], one):
                window = first.window if first.window == second.window else ""
                shared = bool(window) and (_writes(first) or _writes(second))
                if one == other or shared:
                    made.append(Conflict(one, other, window, self._removal(first, window)))
        return tuple(made)

    def matrix(self, removed: Collection[Removal] = ()) -> list[list[int]]:
        """C: 1 where two operations are in conflict, but for conflicts that are removed.  Those on
        containers go away with these, or by timestamps that are raised."""
        size = range(len(self.operations))
        made = [[0 for _ in size] for _ in size]
        for each in self.found:
            raised = each.removed_by is Removal.CONTAINERS and Removal.RAISED in removed
            if each.removed_by not in removed and not raised:
                made[each.one][each.other] = made[each.other][each.one] = 1
        return made

    def _removal(self, operation: Operation, window: str) -> Removal:
        if window == OUT or operation.symbol == "γ":  # groups are folded in any order
            return Removal.ORDER
        return Removal.CONTAINERS if window in self.containers else Removal.TIMESTAMPS

    @cached_property
    def containers(self) -> frozenset[str]:
        """Windows of intermediate results: something was looked up before they are written."""
        found = set()
        for expression in self.expressions:
            read = False
            for each in expression.operations:
                if _writes(each) and read and each.window != OUT:
                    found.add(each.window)
                read |= bool(each.window) and not _writes(each)
        return frozenset(found)


def _writes(operation: Operation) -> bool:
    return operation.symbol == "→"


def _plain(operation: Operation) -> Operation:
    """Without what it costs, which may differ from expression to expression."""
    return Operation(operation.symbol, operation.window, operation.by)


def shown_matrix(matrix: Sequence[Sequence[int]]) -> list[str]:
    """
    >>> shown_matrix([[1, 0], [0, 1]])
    ['     α1 α2', 'α1    1  ·', 'α2    ·  1']
    """
    names = [f"α{number + 1}" for number in range(len(matrix))]
    wide = max(map(len, names))
    lines = [" " * (wide + 2) + "".join(f" {name:>{wide}}" for name in names)]
    for name, row in zip(names, matrix, strict=True):
        cells = "".join(f" {'1' if each else '·':>{wide}}" for each in row)
        lines.append(f"{name:<{wide}}  {cells}")
    return lines
