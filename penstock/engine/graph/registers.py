"""Registers on the inputs of progress-sensitive operators, and the arcs that lead to them.

An arc leads from a source, or from an operator that progress means something to, straight to the
next such operator.  What lies between only renames bounds or computes them, so it is not scheduled:
the arc does that in one go.  Progress never overtakes tuples: it waits in the arc until nothing
waits on the way, and what is newer supersedes it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.engine.graph.buffer import Reader
from penstock.engine.graph.superseding import superseding
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.operators.operator import Operator, Progress
from penstock.operators.stateless.filter import FilterOperator
from penstock.physical.node import OperatorKind

PASSING = frozenset({OperatorKind.FILTER, OperatorKind.PROJECT, OperatorKind.LOOKUP})
"""Operators that hand progress on as it is, or with bounds on computed columns, and keep nothing of
it.  All others are progress-sensitive."""

LETTING_WAIT = frozenset(
    {
        OperatorKind.MERGE,
        OperatorKind.ORDER,
        OperatorKind.OPOB_JOIN,
        OperatorKind.OPIB_JOIN,
        OperatorKind.SYNC_FILTER,
        OperatorKind.FILTER_ORDER,
        OperatorKind.ADAPTIVE_JOIN,
        OperatorKind.RECENT,
        OperatorKind.CHRONICLE,
    }
)
"""Those in which rows wait for progress before they leave: the ones prone to wait idly."""


class Between(Protocol):
    """An operator on the way of an arc."""

    @property
    def operator(self) -> Operator: ...

    @property
    def pending(self) -> object | None:
        """What it has begun to give out, if it has more of it."""
        ...


class Register:
    """What an input has been promised.  `offered` is active: the operator has not seen it yet."""

    def __init__(
        self, readers: Sequence[Reader], between: Sequence[Between], port: int = 0
    ) -> None:
        """The readers on the way, the operator's own last, and the operators between them."""
        self.port = port
        self._readers = tuple(readers)
        self._between = tuple(between)
        self._way = [  # what changes progress on its way; filters do not
            (reader, node.operator)
            for reader, node in zip(readers, between, strict=False)
            if not isinstance(node.operator, FilterOperator) or reader.renames
        ]
        self._offered: list[Progress] = []
        self.last = Progress()  # that the operator has seen
        self.arrived = 0  # when the first of what is offered had come

    @property
    def is_straight(self) -> bool:
        """Whether progress arrives as it was offered."""
        return not self._way and not self._readers[-1].renames

    def offer(self, progress: Progress, arrived: int = 0) -> None:
        if not self._offered:
            self.arrived = arrived
        else:
            united = superseding(self._offered[-1], progress)
            if united is not None:
                self._offered[-1] = united
                return
        self._offered.append(progress)

    @property
    def active(self) -> bool:
        return bool(self._offered)

    @property
    def ready(self) -> bool:
        """Whether there is something to take, and no tuple on the way that came before it."""
        return bool(self._offered) and self._way_is_clear()

    @property
    def is_clear(self) -> bool:
        """Whether nothing has been offered that the operator has not seen, and no tuple is on the
        way."""
        return not self._offered and self._way_is_clear()

    def _way_is_clear(self) -> bool:
        for reader in self._readers:
            if reader.waiting:
                return False
        for node in self._between:  # noqa: SIM110
            if node.pending is not None:
                return False
        return True

    def take(self) -> list[Progress]:
        """What is offered, as it arrives at the input."""
        offered, self._offered = self._offered, []
        if len(offered) == 1:
            return [self.arriving(offered[0])]
        return [self.arriving(each) for each in offered]

    def arriving(self, progress: Progress) -> Progress:
        """Progress as it arrives at the input."""
        for reader, operator in self._way:
            (made,) = operator.on_progress(0, reader.renamed(progress))
            assert isinstance(made, Progress)
            progress = made
        return self._readers[-1].renamed(progress)

    @property
    def low(self) -> Bound:
        """The lowest of the bounds that the operator has seen."""
        if self.last.ended:
            return END
        return min(self.last.bounds.values(), default=BEGINNING)
