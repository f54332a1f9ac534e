"""The node behind OVER, LIMIT and QUALIFY: rows as they are, and beside them what others of their
partition say about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from penstock.errors import PlanError, Span
from penstock.model.schema import Field, Schema
from penstock.model.types import Kind
from penstock.plan.expressions import Column, Expression
from penstock.plan.node import Node, Progressing, Unary
from penstock.plan.over_calls import (
    FramedAggregate,
    NamedOver,
    Neighbour,
    Numbering,
    OrderKey,
    ValueAt,
    frames_of,
)

TIMES = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)
# what can be carried from row to row without the rows themselves
_CARRIED = frozenset(
    [
        *("count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"),
        *("min", "max", "min_by", "max_by", "any_value", "bool_and", "bool_or"),
    ]
)


@dataclass(frozen=True)
class Over(Unary):
    """For every row in time, the row with one more column for each call.  Rows of a partition are
    in the `order` of its keys; where those are equal, `ties` decide, from left to right, so that
    arrival makes no difference.

    If something in `partition` progresses, rows leave when their partition is complete.  Otherwise
    they leave in time: the order begins with a column that progresses, and a row is final when all
    are known that its frames reach.

    With `most`, only those rows come that a Numbering among the calls gives a number up to a limit:
    the place of the call, and the limit."""

    stateful: ClassVar[bool] = True
    input: Node
    partition: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    ties: tuple[Column, ...]
    calls: tuple[NamedOver, ...]
    most: tuple[int, int] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.input.signed:
            raise PlanError(
                "OVER and LIMIT over items that may be taken back have no meaning",
                expected="a stream, or results that stay",
            )
        for frame in frames_of(self.calls):
            if frame.has_lengths:
                self._check_lengths()
        if self.completing is None:
            self._check_time()

    def _check_lengths(self) -> None:
        (*others, key) = self.order or (None,)
        if others or key is None or key.descending or key.expression.type.kind not in TIMES:
            raise PlanError(
                "RANGE with lengths is measured on one column that ORDER BY names",
                expected="ORDER BY a time or a number, ascending",
            )

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
                    expected="CURRENT ROW, or a bounded FOLLOWING",
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
        return _farthest(each.last for each in frames_of(self.calls) if each.by_rows)

    @cached_property
    def ticks_ahead(self) -> int:
        """How far beyond its own time a row waits for others."""
        return _farthest(each.last for each in frames_of(self.calls) if not each.by_rows)

    @cached_property
    def rows_back(self) -> int:
        """How many rows of its partition a row looks back at, where frames have a beginning."""
        return _farthest(-(each.first or 0) for each in frames_of(self.calls) if each.by_rows)

    @cached_property
    def ticks_back(self) -> int:
        """How far before its own time."""
        return _farthest(-(each.first or 0) for each in frames_of(self.calls) if not each.by_rows)

    @cached_property
    def schema(self) -> Schema:
        made = tuple(Field(each.name, each.call.type) for each in self.calls)
        return Schema((*self.input.schema.fields, *made))

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        """Rows wait, and are below what was promised meanwhile; but not if they may be late by
        another column than they leave by."""
        given = self.input.progress
        if _only_results(self.input):
            return given
        return tuple(each for each in given if Column.of(each.field) in self.times)

    @property
    def looked_at(self) -> list[Expression]:
        keys = [key.expression for key in self.order]
        calls = [each for call in self.calls for each in call.call.expressions]
        return [*self.partition, *keys, *self.ties, *calls]

    def details(self) -> list[str]:
        lines = ["Over " + ", ".join(map(str, self.calls))]
        if self.partition:
            lines.append("partition by: " + ", ".join(map(str, self.partition)))
        if self.order:
            lines.append("order by: " + ", ".join(map(str, self.order)))
        if self.most is not None:
            place, limit = self.most
            lines.append(f"rows: those with {self.calls[place]} up to {limit}")
        return lines


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
        case Neighbour():
            return False
