"""Amendment of results by late tuples: the grace within which they still count, the bounds below
which everything is final, and the timer of early answers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.groups.group_by import InTime, wholly_late
from penstock.kernel.operator import Base, Item, LateRows, Progress, at_once
from penstock.model.arrays import Ints, Mask, exceeds_by_at_most
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.types import BIGINT, Type, late_names
from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Node
from penstock.plan.physical import Asked


def behind(bound: Bound, grace: int | None) -> Bound:
    """The bound below which everything is final."""
    if bound in (BEGINNING, END):
        return bound
    return BEGINNING if grace is None else bound - grace


def with_amended(late: LateRows, amended: Mask) -> LateRows:
    """Add to late rows whether each still counts in everything that it is late for."""
    own = late.batch.schema.names[:-3]  # before what they missed
    return LateRows(late.batch.append_column(late_names(own)[-1], pa.array(amended)))


def in_time_of(expressions: list[Expression], node: Node, asked: Asked | None) -> InTime:
    """Splitter of tuples that rejects late ones, as far as they do not amend results."""
    if asked is None or not asked.amends:
        return InTime(expressions, node)
    return Forgiving(expressions, node, asked)


class Forgiving(InTime):
    """Splits off only those tuples that are too far below a bound; other late tuples count."""

    def __init__(self, expressions: list[Expression], node: Node, asked: Asked) -> None:
        super().__init__(expressions, node)
        self.graces = [asked.grace(expression.type) for expression in expressions]
        self._says_amended = asked.amend_for is not None

    @property
    def nothing_final(self) -> list[Bound]:
        return [BEGINNING for _ in self.graces]

    def final(self, progress: Progress) -> list[Bound]:
        """The bounds below which everything is final."""
        promised = self.promised(progress)
        return [behind(bound, grace) for bound, grace in zip(promised, self.graces, strict=True)]

    def in_time(
        self, batch: Batch, id_type: Type = BIGINT
    ) -> tuple[Mask | None, Ints, list[LateRows]]:
        """Find the tuples that count (None: all), the ticks of all, and all late tuples."""
        given, ticks = batch.rows, self._ticks_of(batch.rows)
        if batch.broken is None:
            return None, ticks, []
        kept = np.ones(batch.num_rows, np.bool_)
        seen = np.zeros(batch.num_rows, np.bool_)
        found: list[tuple[Ints, Ints, Type]] = []
        for values, sql_type, bound, grace in zip(
            ticks, self._types, self._bounds, self.graces, strict=True
        ):
            rows, bounds = bound.broken(batch)
            below = values[rows] < bounds
            rows, bounds = rows[below], bounds[below]
            if grace is not None:
                kept[rows] &= exceeds_by_at_most(bounds, values[rows], grace)
            new = ~seen[rows]
            seen[rows] = True
            if new.any():
                found.append((rows[new], bounds[new], sql_type))
        late = []
        for rows, bounds, sql_type in found:
            each = wholly_late(given.take(pa.array(rows)), bounds, sql_type, id_type)
            late.append(with_amended(each, kept[rows]) if self._says_amended else each)
        return kept, ticks, late


# EMIT EARLY EVERY: when provisional answers are due, by the clock of the run.


class EarlyTimer:
    """Timer of early answers: due when `every` microseconds have passed since it last was; None for
    never.

    >>> from penstock.model.clock import ManualClock
    >>> timer = EarlyTimer(ManualClock(100), 10)
    >>> [timer.passes(now) for now in (109, 110, 115, 130)], timer.due
    ([False, True, False, True], 140)
    """

    def __init__(self, clock: Clock, every: int | None) -> None:
        self._every = every
        self.due = None if every is None else clock.now() + every

    def passes(self, now: int) -> bool:
        """Whether answers are due at `now`; if so, sets the next wake-up time."""
        if self.due is None or self._every is None or now < self.due:
            return False
        self.due = now + self._every
        return True


class EarlyAnswers(Base):
    """An operator that emits provisional results when they are due."""

    def __init__(self, clock: Clock, asked: Asked) -> None:
        self._timer = EarlyTimer(clock, asked.early_every)

    @abstractmethod
    def early(self) -> Iterator[Item]:
        """Emit provisional results of what has changed since the last call."""

    def due(self) -> int | None:
        return self._timer.due

    @at_once
    def on_time(self, now: int) -> Iterator[Item]:
        if self._timer.passes(now):
            yield from self.early()
