"""OVER, LIMIT and QUALIFY whose rows become final: their order progresses, or their partitions are
complete one day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import PlanError
from penstock.plan.expressions import Column, Expression
from penstock.plan.nodes.node import Node, Progressing
from penstock.plan.nodes.over_calls import (
    FramedAggregate,
    FrameUnit,
    NamedOver,
    Neighbour,
    Numbering,
    RowFrame,
    Standing,
    ValueAt,
    frames_of,
)
from penstock.plan.nodes.rows_over import RowsOver

# what can be carried from row to row without the rows themselves
_CARRIED = frozenset(
    [
        *("count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"),
        *("min", "max", "min_by", "max_by", "any_value", "bool_and", "bool_or"),
    ]
)


@dataclass(frozen=True)
class Over(RowsOver):
    """Rows of a stream that leave once, when they are final.

    If something in `partition` progresses, rows leave when their partition is complete.  Otherwise
    they leave in time: the order begins with a column that progresses, and a row is final when all
    are known that its frames reach."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input.running:
            raise PlanError("the order of rows that may be taken back is never final")
        if self.completing is None:
            self._check_time()

    def _check_time(self) -> None:
        if not self.order or self.input.promise(self.order[0].expression) is None:
            known = ", ".join(each.field.qualified for each in self.input.progress)
            raise PlanError(
                "over an endless stream these rows never have their last order",
                expected=f"ORDER BY a column that progresses ({known or 'none does'}), or one in"
                " PARTITION BY",
                hint="PARTITION BY window_start, window_end over windows: TUMBLE, HOP, WINDOWED",
            )
        if self.order[0].descending:
            raise PlanError(
                f"{self.order[0].expression} goes on rising, so these rows never have their last"
                " order",
                expected="ascending order, or a column that progresses in PARTITION BY",
                hint="lead in place of lag, or a window: DISTINCT ON, TUMBLE, HOP, WINDOWED",
            )
        if not isinstance(self.order[0].expression, Column):
            raise PlanError(
                "rows are put in order by a column that progresses, and this is computed",
                hint=f"FROM (SELECT *, {self.order[0].expression} AS time FROM …) ORDER BY time",
            )
        for each, frame in zip(self.calls, frames_of(self.calls), strict=True):
            if frame.last is None:
                raise PlanError(
                    f"{each.call} waits for rows without end",
                    expected="a column that progresses in PARTITION BY"
                    if isinstance(each.call, Standing | Neighbour)
                    else "CURRENT ROW, or a bounded FOLLOWING",
                )
            if frame.first is None and frame.last != 0:
                raise PlanError(
                    f"{each.call} begins with the first row of all, and does not end with its own",
                    expected="UNBOUNDED PRECEDING AND CURRENT ROW, or a bounded PRECEDING",
                )
            if frame.runs and self.waits:
                raise PlanError(f"{each.call} stands beside what waits for later rows")
            if frame.runs and not _is_carried(each):
                raise PlanError(
                    f"{each.call} would keep all rows for ever",
                    expected="a bounded frame",
                    hint="ROWS BETWEEN 100 PRECEDING AND CURRENT ROW",
                )

    @cached_property
    def times(self) -> tuple[Expression, ...]:
        """What rows are late by: below the bound on any of these."""
        found = tuple(each for each in self.partition if self.input.promise(each) is not None)
        return found or tuple(key.expression for key in self.order[:1])

    @cached_property
    def completing(self) -> Expression | None:
        """The first in the partition that progresses: a partition is complete when it is passed."""
        return self.times[0] if self.times and self.times[0] in self.partition else None

    @property
    def time(self) -> Expression:
        """What rows leave by."""
        return self.times[0]

    @cached_property
    def waits(self) -> bool:
        """Whether rows that leave in time wait for later ones."""
        return any(frame.last is None or frame.last > 0 for frame in frames_of(self.calls))

    @cached_property
    def rows_ahead(self) -> int:
        """How many rows of its partition a row waits for."""
        return _farthest(each.last for each in self._frames(FrameUnit.ROWS))

    @cached_property
    def ticks_ahead(self) -> int:
        """How far beyond its own time a row waits for others."""
        return _farthest(each.last for each in self._frames(FrameUnit.RANGE))

    @cached_property
    def groups_ahead(self) -> int:
        """How many groups of equal rows."""
        return _farthest(each.last for each in self._frames(FrameUnit.GROUPS))

    @property
    def counts_ahead(self) -> bool:
        """Whether rows wait for others whose times nobody knows."""
        return self.rows_ahead > 0 or self.groups_ahead > 0

    @cached_property
    def rows_back(self) -> int:
        """How many rows of its partition a row looks back at, where frames have a beginning."""
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.ROWS))

    @cached_property
    def ticks_back(self) -> int:
        """How far before its own time."""
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.RANGE))

    @cached_property
    def groups_back(self) -> int:
        """How many groups of equal rows before its own."""
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.GROUPS))

    def _frames(self, unit: FrameUnit) -> Iterator[RowFrame]:
        return (each for each in frames_of(self.calls) if each.unit is unit)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        """Rows wait, and are below what was promised meanwhile; but not if they may be late by
        another column than they leave by."""
        given = self.input.progress
        if _only_results(self.input):
            return given
        return tuple(each for each in given if Column.of(each.field) in self.times)


def _only_results(node: Node) -> bool:
    """Whether no tuples of a stream come out of it, which may be late."""
    return node.stateful or (bool(node.inputs) and all(map(_only_results, node.inputs)))


def _farthest(offsets: Iterable[int | None]) -> int:
    return max((0, *(each or 0 for each in offsets)))


def _is_carried(each: NamedOver) -> bool:
    match each.call:
        case Numbering():
            return True
        case ValueAt(place=place):
            return place in (1, -1)
        case FramedAggregate(call=call):
            distinct = call.distinct and call.function.name not in ("min", "max")
            return call.function.name in _CARRIED and not distinct
        case Neighbour(known=known):
            return known
        case Standing():
            return False
