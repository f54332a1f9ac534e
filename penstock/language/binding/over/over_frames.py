"""ROWS, RANGE and GROUPS: which rows of its partition a row looks at."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import BindError, Span
from penstock.language.binding.scalars.literals import span_of, ticks
from penstock.language.binding.windows.peer_windows import length_of
from penstock.model.domain import Domain
from penstock.model.types import Type
from penstock.plan.nodes.over_calls import Excluded, FrameUnit, RowFrame
from penstock.plan.nodes.rows_over import TIMES

_TRY = "ROWS BETWEEN 5 PRECEDING AND CURRENT ROW"


def default_frame(ordered: bool) -> RowFrame:
    """Up to the row and those that are equal to it; without an order, the whole partition."""
    return RowFrame(FrameUnit.RANGE, None, 0) if ordered else RowFrame(FrameUnit.ROWS, None, None)


def frame_of(spec: exp.WindowSpec, order: Type | None, span: Span | None) -> RowFrame:
    """The frame that is written; `order` is the type of the first column of the order."""
    unit = FrameUnit(str(spec.args.get("kind")).upper())
    if order is None and unit is not FrameUnit.ROWS:
        raise BindError(
            f"{unit.value} is measured on what ORDER BY names", span=span, hint="ORDER BY ts"
        )
    lengths = any(isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end"))
    if unit is FrameUnit.RANGE and lengths and order is not None and order.kind not in TIMES:
        raise BindError(
            f"RANGE is measured on times and exact numbers, and this is {order.a}",
            span=span,
            hint="ROWS, or ORDER BY a CAST to DECIMAL(18,6)",
        )
    first = _offset(spec, "start", unit, order, span)
    last = 0 if spec.args.get("end") is None else _offset(spec, "end", unit, order, span)
    if first is not None and last is not None and first > last:
        raise BindError("the frame ends before it begins", span=span, hint=_TRY)
    excluded = spec.args.get("exclude")
    return RowFrame(unit, first, last, Excluded(str(excluded).upper() if excluded else "NO OTHERS"))


def _offset(
    spec: exp.WindowSpec, end: str, unit: FrameUnit, order: Type | None, span: Span | None
) -> int | None:
    value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    if value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if side != ("PRECEDING" if end == "start" else "FOLLOWING"):
            raise BindError(
                f"a frame does not {'begin' if end == 'start' else 'end'} with UNBOUNDED {side}",
                span=span,
                hint=_TRY,
            )
        return None
    if not isinstance(value, exp.Expr) or side not in ("PRECEDING", "FOLLOWING"):
        raise BindError(
            "a frame begins and ends with PRECEDING, CURRENT ROW or FOLLOWING", span=span, hint=_TRY
        )
    length = _length(value, unit, order)
    if length < 0:
        raise BindError("a frame is measured from its row on", span=span_of(value), hint=_TRY)
    return -length if side == "PRECEDING" else length


def _length(value: exp.Expr, unit: FrameUnit, order: Type | None) -> int:
    quantity = length_of(value)
    if unit is FrameUnit.RANGE:
        assert order is not None
        return ticks(quantity, Domain(order))
    if quantity.unit is not None or quantity.amount != int(quantity.amount):
        what = "rows" if unit is FrameUnit.ROWS else "groups of equal rows"
        raise BindError(f"{unit.value} counts {what}", span=span_of(value), hint=_TRY)
    return int(quantity.amount)
