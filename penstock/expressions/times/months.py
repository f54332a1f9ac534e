"""Calendar months and time zones of whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RunError
from penstock.expressions.columns import column_of, holds_somewhere, ints_of, narrowed, values_of
from penstock.expressions.node import Builder, Kernel
from penstock.expressions.rows import by_rows
from penstock.model.arrays import Ints
from penstock.model.calendar import days_of
from penstock.model.duration import DAY
from penstock.model.types import BIGINT, DATE, TIMESTAMP, Kind
from penstock.plan.expressions import Call, Literal
from penstock.scalars.months import zone_of

_FAR = 12 * 1_000_000  # months
_LAST_DAY = 106_000_000  # whose microseconds an int64 holds, with room for a month
_FROM, _TO = days_of(1902, 1, 1) * DAY, days_of(2037, 1, 1) * DAY  # where all tables agree


def _add_months(call: Call, _: Sequence[Literal | None]) -> Kernel:
    is_date, rows = call.type.kind is Kind.DATE, by_rows(call)

    def kernel(times: pa.Array | pa.Scalar, months: pa.Array | pa.Scalar) -> pa.Array:
        values, by = ints_of(times, call.type), ints_of(months, BIGINT)
        days = values if is_date else values // DAY
        far = (np.abs(days) > _LAST_DAY * (1 + 20 * is_date)) | (np.abs(by) > _FAR)
        if holds_somewhere(np.atleast_1d(far), times, months):
            return rows(times, months)
        moved = _moved(np.where(far, 0, days), np.where(np.abs(by) > _FAR, 0, by))
        if is_date:
            return narrowed(moved, DATE, times, months)
        if holds_somewhere(np.atleast_1d(np.abs(moved) > _LAST_DAY), times, months):
            return rows(times, months)
        return column_of(np.where(far, 0, moved * DAY + values % DAY), TIMESTAMP, times, months)

    return kernel


def _moved(days: Ints, months: Ints) -> Ints:
    own = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    into = days - _first(own)
    first, end = _first(own + months), _first(own + months + 1)
    moved: Ints = first + np.minimum(into, end - first - 1)
    return moved


def _first(months: Ints) -> Ints:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _at_time_zone(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    zone = literals[1]
    if literals[0] is not None or zone is None:
        return None
    try:
        zone_of(zone.value)
    except RunError:
        return None  # which the first row says
    there, rows = pa.timestamp("us", zone.value), by_rows(call)

    def kernel(times: pa.Array, _: pa.Scalar) -> pa.Array:
        values = values_of(times, TIMESTAMP)
        if holds_somewhere((values < _FROM) | (values >= _TO), times):
            return rows(times)
        shown = pc.local_timestamp(times.cast(there))
        return shown.view(pa.int64()).view(TIMESTAMP.arrow)

    return kernel


def _row_by_row(call: Call, _: Sequence[Literal | None]) -> Kernel:
    return by_rows(call)


MONTHS: dict[str, Builder] = {
    "add_months": _add_months,
    "at_time_zone": _at_time_zone,
    "lowest_at_time_zone": _row_by_row,  # of bounds, of which there are few
    "highest_at_time_zone": _row_by_row,
}
