"""The columns that a query may ask of the windows of its aggregate."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import Span
from penstock.model.schema import Field
from penstock.model.types import BIGINT, INTERVAL, Kind, Type
from penstock.plan.expressions import Call, Column, Expression, Literal

_MILLISECOND = 1_000  # in microseconds


@dataclass(frozen=True)
class WindowColumns:
    """Windows that are written as others write them have a `window_time` as well, and sessions
    among these a `window_end` that is a tick before their own (`tick_back`): they end a gap after
    their last tuple, and one that comes then still belongs to them."""

    fields: tuple[Field, ...] = ()
    peers: bool = False
    tick_back: bool = False

    def bind(self, name: str, span: Span | None) -> Expression | None:
        """The column, if windows have one of that name."""
        if name == "window_time" and self.peers:
            end = self.bind("window_end", span)
            return None if end is None or not has_last_moment(end.type) else last_moment(end)
        field = next((each for each in self.fields if each.name == name), None)
        if field is None:
            return None
        column = Column.of(field, span)
        if name != "window_end" or not self.tick_back:
            return column
        tick = Literal(-1, INTERVAL if column.type.kind is Kind.TIMESTAMP else BIGINT)
        return Call("add", (column, tick), column.type, span=span)


def has_last_moment(bounds: Type) -> bool:
    return bounds.kind is Kind.TIMESTAMP or bounds.is_integer


def last_moment(end: Expression) -> Call:
    """What a window goes by where it is a tuple of another window: the last millisecond before its
    end, or the last number."""
    times = end.type.kind is Kind.TIMESTAMP
    back = Literal(-_MILLISECOND, INTERVAL) if times else Literal(-1, BIGINT)
    return Call("add", (end, back), end.type, span=end.span)
