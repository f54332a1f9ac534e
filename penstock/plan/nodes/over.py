"""OVER, LIMIT and QUALIFY: row numbers, neighbours, and functions over a frame around a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar, TypeAlias

from penstock.errors import PlanError, Span
from penstock.model.types import BIGINT, DOUBLE, Field, Kind, Schema, Type
from penstock.plan.expressions import AggregateCall, Column, Expression
from penstock.plan.nodes.node import Node, Progressing, Unary


@dataclass(frozen=True, slots=True)
class OrderKey:
    """Key of an order. By default, NULL is above everything; NaN is above all numbers."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        words = [str(self.expression), *(["DESC"] if self.descending else [])]
        if self.nulls_first != self.descending:
            words.append(f"NULLS {'FIRST' if self.nulls_first else 'LAST'}")
        return " ".join(words)


class FrameUnit(Enum):
    """Unit of a frame: rows, ticks of the only key of the order, or groups of rows that are equal
    in the whole order.
    """

    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


class Excluded(Enum):
    """Rows that a frame leaves out between its ends: the current row, the group of rows equal to
    it in the whole order, or only the others of that group.
    """

    NO_OTHERS = "NO OTHERS"
    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@dataclass(frozen=True, slots=True)
class RowFrame:
    """Frame: the rows of a partition from `first` to `last`, relative to the current row; None is
    without end. Unless rows are counted, 0 stands for the first or the last row that is equal in
    the whole order.
    """

    unit: FrameUnit
    first: int | None
    last: int | None
    excluded: Excluded = Excluded.NO_OTHERS

    @property
    def runs(self) -> bool:
        """Whether it grows with every row: from the beginning of the partition to the
        current row.
        """
        return self.first is None and self.last == 0

    @property
    def leaves_out(self) -> bool:
        """Whether it excludes rows between its ends."""
        return self.excluded is not Excluded.NO_OTHERS

    @property
    def has_lengths(self) -> bool:
        """Whether it is measured in ticks."""
        lengths = any(each not in (None, 0) for each in (self.first, self.last))
        return self.unit is FrameUnit.RANGE and lengths

    def __str__(self) -> str:
        ends = [_end(self.first, "PRECEDING"), _end(self.last, "FOLLOWING")]
        without = f" EXCLUDE {self.excluded.value}" if self.leaves_out else ""
        return f"{self.unit.value} BETWEEN {' AND '.join(ends)}{without}"


def _end(offset: int | None, side: str) -> str:
    """
    >>> print(RowFrame(FrameUnit.ROWS, -3, 0), RowFrame(FrameUnit.RANGE, None, 2), sep="; ")
    ROWS BETWEEN 3 PRECEDING AND CURRENT ROW; RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING
    """
    if offset is None:
        return f"UNBOUNDED {side}"
    if offset == 0:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


class NumberKind(Enum):
    """Function that numbers rows; they differ for rows that are equal in the order."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True, slots=True)
class Numbering:
    """Number of a row in its partition, from 1 on; rows that are equal in the order share one, or
    have different ones, by the kind.
    """

    kind: NumberKind

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.kind.value}()"


class StandingKind(Enum):
    """Function of the position of a row among all rows of its partition."""

    NTILE = "ntile"
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"


@dataclass(frozen=True, slots=True)
class Standing:
    """Position of a row among all rows of its partition: the number of one of so many `parts` of
    equal size, or a share of 1.
    """

    kind: StandingKind
    parts: int | None = None

    @property
    def type(self) -> Type:
        return BIGINT if self.kind is StandingKind.NTILE else DOUBLE

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.kind.value}({'' if self.parts is None else self.parts})"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Value of the row so many places after (lead), or before (lag, below zero); if it is `known`,
    only rows count that have one (IGNORE NULLS).
    """

    value: Expression
    offset: int
    default: Expression | None = None
    known: bool = False

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,) if self.default is None else (self.value, self.default)

    def __str__(self) -> str:
        name = "lag" if self.offset < 0 else "lead"
        default = "" if self.default is None else f", {self.default}"
        return f"{name}({self.value}, {abs(self.offset)}{default}){_known(self.known)}"


@dataclass(frozen=True, slots=True)
class ValueAt:
    """Value of the n-th row of a frame; of the last one if `place` is -1; if it is `known`, only
    rows count that have one (IGNORE NULLS).
    """

    value: Expression
    place: int
    frame: RowFrame
    known: bool = False

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,)

    def __str__(self) -> str:
        name = {1: "first_value", -1: "last_value"}.get(self.place, "nth_value")
        place = f", {self.place}" if name == "nth_value" else ""
        return f"{name}({self.value}{place}){_known(self.known)} {self.frame}"


def _known(known: bool) -> str:
    return " IGNORE NULLS" if known else ""


@dataclass(frozen=True, slots=True)
class FramedAggregate:
    """Aggregate over a frame."""

    call: AggregateCall
    frame: RowFrame

    @property
    def type(self) -> Type:
        return self.call.type

    @property
    def expressions(self) -> tuple[Expression, ...]:
        where = self.call.where
        return self.call.arguments if where is None else (*self.call.arguments, where)

    def __str__(self) -> str:
        return f"{self.call} {self.frame}"


OverCall: TypeAlias = Numbering | Standing | Neighbour | ValueAt | FramedAggregate


@dataclass(frozen=True, slots=True)
class NamedOver:
    """A call of OVER with the name of its output column."""

    name: str
    call: OverCall

    def __str__(self) -> str:
        return str(self.call)


def frames_of(calls: tuple[NamedOver, ...]) -> Iterator[RowFrame]:
    """Frames of all calls: a neighbour is a frame of one row, unless the distance of the next row
    with a value is unknown.
    """
    for each in calls:
        match each.call:
            case Neighbour(known=True, offset=offset):
                yield RowFrame(FrameUnit.ROWS, *((None, 0) if offset < 0 else (0, None)))
            case Neighbour(offset=offset):
                yield RowFrame(FrameUnit.ROWS, offset, offset)
            case ValueAt(frame=frame) | FramedAggregate(frame=frame):
                yield frame
            case Numbering():
                yield RowFrame(FrameUnit.RANGE, None, 0)
            case Standing():
                yield RowFrame(FrameUnit.RANGE, None, None)


# The base of all nodes: rows unchanged, with columns computed from other rows of their partition.

TIMES = (Kind.TIMESTAMP, Kind.DATE, Kind.INT, Kind.BIGINT, Kind.DECIMAL)


@dataclass(frozen=True)
class RowsOver(Unary):
    """Every row with one more column for each call.

    Rows of a partition are in the `order` of its keys; where those are equal, `ties` decide, from
    left to right, so that the result does not depend on the order of arrival.

    With `most`, only rows come to which a Numbering among the calls gives a number up to a limit:
    the place of the call, and the limit. Those up to `skip` by the first call do not come. With
    `bare`, rows come without the columns of the calls.
    """

    stateful: ClassVar[bool] = True
    input: Node
    partition: tuple[Expression, ...]
    order: tuple[OrderKey, ...]
    ties: tuple[Column, ...]
    calls: tuple[NamedOver, ...]
    most: tuple[int, int] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    skip: int = 0
    bare: bool = False

    def __post_init__(self) -> None:
        if self.input.signed:
            raise PlanError(
                "OVER and LIMIT over items that may be taken back have no meaning",
                expected="a stream, or results that stay",
            )
        for frame in frames_of(self.calls):
            if frame.has_lengths:
                self._check_lengths()

    def _check_lengths(self) -> None:
        (*others, key) = self.order or (None,)
        if others or key is None or key.expression.type.kind not in TIMES:
            raise PlanError(
                "RANGE with lengths is measured on one column that ORDER BY names",
                expected="ORDER BY a time or a number",
            )

    @cached_property
    def schema(self) -> Schema:
        if self.bare:
            return self.input.schema
        made = tuple(Field(each.name, each.call.type) for each in self.calls)
        return Schema((*self.input.schema.fields, *made))

    @property
    def looked_at(self) -> list[Expression]:
        keys = [key.expression for key in self.order]
        calls = [each for call in self.calls for each in call.call.expressions]
        return [*self.partition, *keys, *self.ties, *calls]

    def details(self) -> list[str]:
        lines = [f"{type(self).__name__} " + ", ".join(map(str, self.calls))]
        if self.partition:
            lines.append("partition by: " + ", ".join(map(str, self.partition)))
        if self.order:
            lines.append("order by: " + ", ".join(map(str, self.order)))
        if self.most is not None:
            place, limit = self.most
            above = f" above {self.skip} and" * bool(self.skip)
            lines.append(f"rows: those with {self.calls[place]}{above} up to {limit}")
        elif self.skip:
            lines.append(f"rows: those with {self.calls[0]} above {self.skip}")
        return lines


# OVER, LIMIT and QUALIFY whose rows become final: their order progresses, or their partitions
# become complete.

# aggregates whose state can be carried from row to row without the rows themselves
_CARRIED = frozenset(
    [
        *("count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"),
        *("min", "max", "min_by", "max_by", "any_value", "bool_and", "bool_or"),
    ]
)


@dataclass(frozen=True)
class Over(RowsOver):
    """Rows of a stream that leave once, when they are final.

    If an expression of `partition` progresses, rows leave when their partition is complete.
    Otherwise they leave in time: the order begins with a column that progresses, and a row is
    final when all rows in reach of its frames are known.
    """

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
        """Expressions by which rows are late: below the bound on any of these."""
        found = tuple(each for each in self.partition if self.input.promise(each) is not None)
        return found or tuple(key.expression for key in self.order[:1])

    @cached_property
    def completing(self) -> Expression | None:
        """First expression of the partition that progresses: a partition is complete when the
        bound has passed it.
        """
        return self.times[0] if self.times and self.times[0] in self.partition else None

    @property
    def time(self) -> Expression:
        """Expression by whose bound rows leave."""
        return self.times[0]

    @cached_property
    def waits(self) -> bool:
        """Whether rows that leave in time wait for later ones."""
        return any(frame.last is None or frame.last > 0 for frame in frames_of(self.calls))

    @cached_property
    def rows_ahead(self) -> int:
        """Number of later rows of its partition that a row waits for."""
        return _farthest(each.last for each in self._frames(FrameUnit.ROWS))

    @cached_property
    def ticks_ahead(self) -> int:
        """Ticks beyond its own time during which a row waits for others."""
        return _farthest(each.last for each in self._frames(FrameUnit.RANGE))

    @cached_property
    def groups_ahead(self) -> int:
        """Number of later groups of equal rows that a row waits for."""
        return _farthest(each.last for each in self._frames(FrameUnit.GROUPS))

    @property
    def counts_ahead(self) -> bool:
        """Whether rows wait for others whose times are unknown."""
        return self.rows_ahead > 0 or self.groups_ahead > 0

    @cached_property
    def rows_back(self) -> int:
        """Number of earlier rows of its partition that a row needs, where frames have a
        beginning.
        """
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.ROWS))

    @cached_property
    def ticks_back(self) -> int:
        """Ticks before its own time that a row needs."""
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.RANGE))

    @cached_property
    def groups_back(self) -> int:
        """Number of groups of equal rows before its own that a row needs."""
        return _farthest(-(each.first or 0) for each in self._frames(FrameUnit.GROUPS))

    def _frames(self, unit: FrameUnit) -> Iterator[RowFrame]:
        return (each for each in frames_of(self.calls) if each.unit is unit)

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        """Rows wait, and fall below the bound meanwhile; but a column does not progress if rows
        may be late by another one than they leave by.
        """
        given = self.input.progress
        if _only_results(self.input):
            return given
        return tuple(each for each in given if Column.of(each.field) in self.times)


def _only_results(node: Node) -> bool:
    """Whether no tuples of a stream, which may be late, come out of it."""
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


# OVER and LIMIT whose rows are never final (EMIT CHANGES): a new row may move all others.


@dataclass(frozen=True)
class RunningOver(RowsOver):
    """Current rows of all partitions; the input may be a running query."""

    @property
    def running(self) -> bool:
        return True

    @property
    def takes_back(self) -> bool:
        return True

    @cached_property
    def progress(self) -> tuple[Progressing, ...]:
        return ()  # a row may come anywhere in the order

    @property
    def forgets(self) -> bool:
        """Whether rows beyond the limit can be evicted: none of those before them is ever
        retracted, and no other call needs them.
        """
        return self.most is not None and self._could_forget

    @property
    def _could_forget(self) -> bool:
        numbered = all(isinstance(each.call, Numbering) for each in self.calls)
        return numbered and not self.input.takes_back

    def details(self) -> list[str]:
        if self.forgets:
            kept = "those rows of every partition, for ever" if self.partition else "those rows"
        else:
            kept = "every row, for ever"
            if self.input.takes_back:
                kept += ", because those before it may be taken back"
            elif self._could_forget:
                kept += ", unless a condition limits its number"
        return [*super().details(), f"keeps: {kept}"]
