"""What can stand before OVER: numbers of rows, neighbours, and what a frame around a row holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from penstock.model.types import BIGINT, DOUBLE, Type
from penstock.plan.expressions import AggregateCall, Expression


@dataclass(frozen=True, slots=True)
class OrderKey:
    """NULL is above everything, and NaN above all numbers, unless it is said where NULLs stand."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        words = [str(self.expression), *(["DESC"] if self.descending else [])]
        if self.nulls_first != self.descending:
            words.append(f"NULLS {'FIRST' if self.nulls_first else 'LAST'}")
        return " ".join(words)


class FrameUnit(Enum):
    """What a frame is measured in: rows, ticks of the only key of the order, or groups of rows that
    are equal in the whole order."""

    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


class Excluded(Enum):
    """Whom a frame leaves out of what lies between its ends: the row that looks, the group of rows
    that are equal to it in the whole order, or only the others of that group."""

    NO_OTHERS = "NO OTHERS"
    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@dataclass(frozen=True, slots=True)
class RowFrame:
    """The rows of a partition from `first` to `last`, counted from the row that looks at them; None
    is without end.  Unless rows are counted, 0 stands for the first or the last row that is equal
    in the whole order."""

    unit: FrameUnit
    first: int | None
    last: int | None
    excluded: Excluded = Excluded.NO_OTHERS

    @property
    def runs(self) -> bool:
        """Whether it grows with every row: from the beginning of the partition to the row."""
        return self.first is None and self.last == 0

    @property
    def leaves_out(self) -> bool:
        """Whether rows between its ends are not in it."""
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
    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True, slots=True)
class Numbering:
    """The number of a row in its partition, from 1 on; rows that are equal in the order share one,
    or have different ones."""

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
    NTILE = "ntile"
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a row stands among all rows of its partition: in which of so many `parts` of equal
    size, or as a share of 1."""

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
    """A value of the row so many places behind (lead), or before (lag, below zero); if it is
    `known`, only rows count that have one."""

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
    """A value of the n-th row of a frame; of the last one if `place` is -1; if it is `known`, only
    rows count that have one."""

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
    name: str
    call: OverCall

    def __str__(self) -> str:
        return str(self.call)


def frames_of(calls: tuple[NamedOver, ...]) -> Iterator[RowFrame]:
    """Where all calls look: a neighbour is a frame of one row, unless nobody knows how far away the
    next one with a value is."""
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
