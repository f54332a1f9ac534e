"""Functions on times, which are whole numbers here: microseconds, or days, since 1970."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.expressions.columns import column_of, holds_somewhere, ints_of, narrowed, values_of
from penstock.expressions.node import Builder, Kernel, always, arrow, same, too_large
from penstock.expressions.times.calendar import OF_DAYS, start_of
from penstock.model.arrays import Ints
from penstock.model.duration import DAY, MICROSECONDS
from penstock.model.types import BIGINT, DATE, TIMESTAMP, Kind, Type
from penstock.plan.expressions import Call, Literal

_MULTIPLY = arrow("multiply_checked")
OF_MICROSECONDS: dict[str, Callable[[Ints], Ints]] = {
    "hour": lambda times: times // MICROSECONDS["HOUR"] % 24,
    "minute": lambda times: times // MICROSECONDS["MINUTE"] % 60,
    "second": lambda times: times // MICROSECONDS["SECOND"] % 60,
    "millisecond": lambda times: times // 1_000 % 1_000,
    "microsecond": lambda times: times % 1_000_000,
    "epoch": lambda times: times // MICROSECONDS["SECOND"],
    "epoch_ms": lambda times: times // 1_000,
}
_OF_MIDNIGHTS: dict[str, Callable[[Ints], Ints]] = {
    **dict.fromkeys(
        ("hour", "minute", "second", "millisecond", "microsecond"), lambda days: days * 0
    ),
    "epoch": lambda days: days * 86_400,
}


# --- fields --------------------------------------------------------------------------------------


def _field(name: str) -> Builder:
    return lambda call, _: _extract(name, call.arguments[-1].type)


def _date_part(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    name = literals[0]
    kernel = _extract(str(name.value).lower(), call.arguments[1].type) if name else None
    return kernel and (lambda _, times: kernel(times))


def _extract(name: str, given: Type) -> Kernel | None:
    if given.kind is Kind.DATE:
        compute = OF_DAYS.get(name) or _OF_MIDNIGHTS.get(name)
    elif name in OF_DAYS:
        compute = _of_their_days(OF_DAYS[name])
    else:
        compute = OF_MICROSECONDS.get(name)
    return compute and _computed(compute, given, BIGINT)


def _of_their_days(of_days: Callable[[Ints], Ints]) -> Callable[[Ints], Ints]:
    return lambda times: of_days(times // DAY)


def _computed(compute: Callable[[Ints], Ints], given: Type, result: Type) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        return column_of(compute(ints_of(column, given)), result, column)

    return kernel


# --- date_trunc ----------------------------------------------------------------------------------


def _date_trunc(call: Call, literals: Sequence[Literal | None]) -> Kernel | None:
    unit = str(literals[0].value).upper() if literals[0] else ""
    given = call.arguments[1].type
    if unit in MICROSECONDS and unit != "WEEK":
        kernel = (
            same if given.kind is Kind.DATE else _truncated(_to_multiple_of(MICROSECONDS[unit]))
        )
    elif unit not in ("WEEK", "MONTH", "QUARTER", "YEAR"):
        return None
    elif given.kind is Kind.DATE:
        kernel = _truncated_days(unit.lower())
    else:
        kernel = _truncated(lambda times: start_of(unit.lower(), times // DAY) * DAY)
    return lambda _, times: kernel(times)


def _to_multiple_of(length: int) -> Callable[[Ints], Ints]:
    return lambda times: times // length * length


def _truncated(truncate: Callable[[Ints], Ints]) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        times: Ints = values_of(column, TIMESTAMP)
        starts = truncate(times)
        if holds_somewhere(starts > times, column):  # wrapped around, below the first of all times
            raise too_large(TIMESTAMP)
        return column_of(starts, TIMESTAMP, column)

    return kernel


def _bucket(sql_type: Type) -> Builder:
    """Down to a multiple of a width, counted from an origin; both are constants, or it is computed
    row by row."""

    def build(_: Call, literals: Sequence[Literal | None]) -> Kernel | None:
        width, origin = literals[0], literals[2].value if len(literals) > 2 and literals[2] else 0
        if width is None or width.value <= 0 or (len(literals) > 2 and literals[2] is None):
            return None
        phase = origin % width.value

        def kernel(_: pa.Scalar, column: pa.Array, *__: pa.Scalar) -> pa.Array:
            values: Ints = values_of(column, sql_type)
            starts = values - (values % width.value - phase) % width.value
            if holds_somewhere(starts > values, column):
                raise too_large(sql_type)
            return column_of(starts, sql_type, column)

        return kernel

    return build


def _truncated_days(unit: str) -> Kernel:
    def kernel(column: pa.Array) -> pa.Array:
        return narrowed(start_of(unit, ints_of(column, DATE)), DATE, column)

    return kernel


# --- between times and numbers -------------------------------------------------------------------


def _from_number(unit: int) -> Builder:
    factor = pa.scalar(unit)
    return always(lambda column: _MULTIPLY(column, factor).view(TIMESTAMP.arrow))


def _date(call: Call, _: Sequence[Literal | None]) -> Kernel:
    given = call.arguments[0].type
    return same if given.kind is Kind.DATE else _computed(lambda times: times // DAY, given, DATE)


TIMES: dict[str, Builder] = {
    **{name: _field(name) for name in (*OF_DAYS, "hour", "minute", "second", "epoch", "epoch_ms")},
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "promised_as": always(lambda value, _: value),
    "time_bucket": _bucket(TIMESTAMP),
    "number_bucket": _bucket(BIGINT),
    "epoch_us": always(lambda column: column.view(BIGINT.arrow)),
    "timestamp_seconds": _from_number(1_000_000),
    "timestamp_millis": _from_number(1_000),
    "timestamp_micros": always(lambda column: column.view(TIMESTAMP.arrow)),
    "date": _date,
}
