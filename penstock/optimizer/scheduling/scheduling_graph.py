"""The state of running computations as a graph: for every item the operations that are left of its
expression, and edges that say what has to wait (figure 4 of Getta and Vossough).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from penstock.optimizer.scheduling.conflicts import Conflicts, Removal


class Step(NamedTuple):
    """An operation, by its number, for an item; `place` is where it stands in the expression."""

    item: str
    place: int
    operation: int

    def __str__(self) -> str:
        return f"α{self.operation + 1}({self.item})"


@dataclass
class SchedulingGraph:
    """Solid edges go from an operation to the next one of the same item, dashed ones from an
    operation to one of a later item that is in conflict with it.  A step begins when no edge leads
    to it, and leaves the graph when it is done.

    >>> from penstock.optimizer.dataflow.expression import DataflowExpression, Operation
    >>> record, read, out = Operation("→", "w_r"), Operation("⋈", "w_s"), Operation("→", "w_out")
    >>> graph = SchedulingGraph(Conflicts((DataflowExpression("r", (record, read, out)),)))
    >>> graph.arrive("r", "d1")
    >>> graph.arrive("r", "d2")
    >>> [str(step) for step in graph.ready()], len(graph.dashed)
    (['α1(d1)'], 3)
    >>> graph.complete(graph.ready()[0])
    >>> [str(step) for step in graph.ready()]
    ['α2(d1)', 'α1(d2)']
    """

    conflicts: Conflicts
    removed: Collection[Removal] = ()
    steps: list[Step] = field(default_factory=list)
    solid: list[tuple[Step, Step]] = field(default_factory=list)
    dashed: list[tuple[Step, Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._matrix = self.conflicts.matrix(self.removed)

    def arrive(self, stream: str, item: str) -> None:
        """An item is appended to a stream."""
        expression = next(each for each in self.conflicts.expressions if each.stream == stream)
        numbers = [self.conflicts.number(each) for each in expression.operations]
        new = [Step(item, place, number) for place, number in enumerate(numbers)]
        self.dashed += [
            (before, step)
            for step in new
            for before in self.steps
            if self._matrix[before.operation][step.operation]
        ]
        self.steps += new
        self.solid += list(pairwise(new))

    def ready(self) -> list[Step]:
        blocked = {to for _, to in (*self.solid, *self.dashed)}
        return [step for step in self.steps if step not in blocked]

    def complete(self, step: Step) -> None:
        assert step in self.ready(), f"{step} has to wait"
        self.steps.remove(step)
        self.solid = [edge for edge in self.solid if edge[0] != step]
        self.dashed = [edge for edge in self.dashed if edge[0] != step]

    def rounds(self) -> int:
        """How many rounds it takes if all that are ready work at the same time; the graph is empty
        afterwards."""
        count = 0
        while self.steps:
            for step in self.ready():
                self.complete(step)
            count += 1
        return count

    def dot(self) -> str:
        """For Graphviz: a row for every item."""
        lines = ["digraph schedule {", "  rankdir=LR; node [shape=circle];"]
        for item in dict.fromkeys(step.item for step in self.steps):
            own = [step for step in self.steps if step.item == item]
            named = "; ".join(f'"{step}" [label="α{step.operation + 1}"]' for step in own)
            lines.append(f'  subgraph "cluster_{item}" {{ label="{item}"; {named}; }}')
        lines += [f'  "{one}" -> "{other}";' for one, other in self.solid]
        lines += [
            f'  "{one}" -> "{other}" [style=dashed, constraint=false];'
            for one, other in self.dashed
        ]
        return "\n".join([*lines, "}"])
