"""Functions on times by the names of other systems: `last_day`, `date_diff`, `timestampadd` and
others, made of functions that there are."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BindError, nearest
from penstock.language.binding.scalars.calls import called, takes, text
from penstock.language.binding.scalars.time_formats import TIME_FORMATS
from penstock.model.duration import MICROSECONDS
from penstock.model.types import BIGINT, DATE, INTERVAL, TIMESTAMP, Kind
from penstock.plan.expressions import Call, Expression, Literal, cast_to

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_UNITS = (*MICROSECONDS, *_MONTHS)
_TIMES = (Kind.TIMESTAMP, Kind.DATE)
_PATTERN = "yyyy-MM-dd HH:mm:ss"


def is_unit(name: str) -> bool:
    return name.upper().removesuffix("S") in _UNITS


def _unit(name: str, unit: Expression) -> str:
    word = str(unit.value) if isinstance(unit, Literal) else ""
    if not is_unit(word):
        close = nearest(word.upper(), list(_UNITS))
        raise BindError(
            f"{unit} is not a unit of {name}",
            span=unit.span,
            expected=f"one of {', '.join(_UNITS).lower()}",
            hint=close[0].lower() if close else None,
        )
    return word.upper().removesuffix("S")


def _number(value: int) -> Literal:
    return Literal(value, BIGINT)


def _whole(operator: str, left: Expression, right: Expression) -> Call:
    return Call(operator, (cast_to(left, BIGINT), cast_to(right, BIGINT)), BIGINT)


def _length(unit: str, amount: Expression) -> Expression:
    one = Literal(MICROSECONDS[unit], INTERVAL)
    return Call("multiply", (cast_to(amount, BIGINT), one), INTERVAL)


def _added(name: str) -> Callable[[list[Expression]], Expression]:
    """`timestampadd(unit, number, time)`"""

    def build(given: list[Expression]) -> Expression:
        if len(given) != 3 or given[2].type.kind not in _TIMES or not given[1].type.is_integer:
            raise takes(name, "unit, whole number, time")
        unit, time = _unit(name, given[0]), cast_to(given[2], TIMESTAMP)
        if unit in _MONTHS:
            months = _whole("multiply", given[1], _number(_MONTHS[unit]))
            return called("add_months", [time, months], name)
        return Call("add", (time, _length(unit, given[1])), TIMESTAMP)

    return build


def between(name: str, given: list[Expression], whole: bool) -> Expression:
    """How many units lie between two times: whole ones, as where the unit is a word in Spark and
    Flink, or how often one begins, as where it is a text in DuckDB."""
    if len(given) != 3 or any(each.type.kind not in _TIMES for each in given[1:]):
        raise takes(name, "unit, start, end")
    unit, (start, end) = _unit(name, given[0]), given[1:]
    if unit in _MONTHS:
        if whole:
            raise BindError(
                f"{name} of {unit} differs between systems at the end of months",
                span=given[0].span,
                hint=f"date_diff('{unit.lower()}', start, end), which counts how often one begins",
            )
        return _begun(unit, start, end)
    if not whole:
        start, end = (called("date_trunc", [text(unit.lower()), each]) for each in (start, end))
    micros = _whole("subtract", *(called("epoch_us", [each]) for each in (end, start)))
    return _whole("div", micros, _number(MICROSECONDS[unit]))


def _begun(unit: str, start: Expression, end: Expression) -> Expression:
    def number(time: Expression) -> Expression:
        year = called("year", [time])
        if unit == "YEAR":
            return year
        each = 12 // _MONTHS[unit]
        return _whole("add", _whole("multiply", year, _number(each)), called(unit.lower(), [time]))

    return _whole("subtract", number(end), number(start))


def _diff(name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) == 2 and all(each.type.kind in _TIMES for each in given):
            days = tuple(cast_to(each, DATE) for each in given)
            return Call("subtract", days, BIGINT)
        if len(given) == 2:
            raise takes(name, "end, start")
        return between(name, given, whole=False)

    return build


def _last_day(given: list[Expression]) -> Expression:
    if len(given) != 1 or given[0].type.kind not in _TIMES:
        raise takes("last_day", "time")
    month = called("date_trunc", [text("month"), cast_to(given[0], DATE)])
    return Call("subtract", (called("add_months", [month, _number(1)]), _number(1)), DATE)


def _day_of_week(given: list[Expression]) -> Expression:
    """1 for Sunday, as in Spark and Flink."""
    days = called("isodow", given, "dayofweek")
    return _whole("add", _whole("mod", days, _number(7)), _number(1))


def _refused(name: str, why: str, hint: str) -> Callable[[list[Expression]], Expression]:
    def build(_: list[Expression]) -> Expression:
        raise BindError(f"{name} {why}", hint=hint)

    return build


def _unix_timestamp(name: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if not given:
            raise BindError(
                f"{name}() would make the answer depend on when it is computed",
                hint=f"{name}(time)",
            )
        if len(given) > 2:
            raise takes(name, "time | text [, format]")
        time, *pattern = given
        if time.type.kind is Kind.STRING:
            time = TIME_FORMATS["to_timestamp"]([time, *(pattern or [text(_PATTERN)])])
        return called("epoch", [time], name)

    return build


def _from_unixtime(given: list[Expression]) -> Expression:
    if not 1 <= len(given) <= 2 or not given[0].type.is_integer:
        raise takes("from_unixtime", "seconds [, format]")
    pattern = given[1] if len(given) > 1 else text(_PATTERN)
    return called("date_format", [called("timestamp_seconds", given[:1]), pattern])


def _to_timestamp_ltz(given: list[Expression]) -> Expression:
    """Of Flink: of seconds (0) or milliseconds (3), or of a text as to_timestamp."""
    if len(given) == 2 and given[0].type.is_integer:
        digits = given[1].value if isinstance(given[1], Literal) else None
        if digits not in (0, 3):
            raise takes("to_timestamp_ltz", "number, 0 | 3")
        return called("timestamp_millis" if digits else "timestamp_seconds", given[:1])
    return TIME_FORMATS["to_timestamp"](given)


def _unix_date(given: list[Expression]) -> Expression:
    if len(given) != 1 or given[0].type.kind not in _TIMES:
        raise takes("unix_date", "day")
    return Call("subtract", (cast_to(given[0], DATE), Literal(0, DATE)), BIGINT)


def _from_unix_date(given: list[Expression]) -> Expression:
    if len(given) != 1 or not given[0].type.is_integer:
        raise takes("date_from_unix_date", "whole number")
    return Call("add", (Literal(0, DATE), cast_to(given[0], BIGINT)), DATE)


def _of_units(unit: str) -> Callable[[list[Expression]], Expression]:
    def build(given: list[Expression]) -> Expression:
        if len(given) != 1 or not given[0].type.is_integer:
            raise takes(f"to_{unit.lower()}s", "whole number")
        return _length(unit, given[0])

    return build


_NAMES = "is short in Spark and long in DuckDB"
TIMES: dict[str, Callable[[list[Expression]], Expression]] = {
    "timestampadd": _added("timestampadd"),
    "dateadd": _added("dateadd"),
    "timestampdiff": lambda given: between("timestampdiff", given, whole=True),
    "datediff": _diff("datediff"),
    "date_diff": _diff("date_diff"),
    "last_day": _last_day,
    "dayofweek": _day_of_week,
    "weekday": _refused(
        "weekday", "counts from Monday in Spark and from Sunday in DuckDB", "isodow(time)"
    ),
    "dayname": _refused("dayname", _NAMES, "date_format(time, 'EEEE'), or 'EEE'"),
    "monthname": _refused("monthname", _NAMES, "date_format(time, 'MMMM'), or 'MMM'"),
    "unix_timestamp": _unix_timestamp("unix_timestamp"),
    "to_unix_timestamp": _unix_timestamp("to_unix_timestamp"),
    "from_unixtime": _from_unixtime,
    "to_timestamp_ltz": _to_timestamp_ltz,
    "unix_date": _unix_date,
    "date_from_unix_date": _from_unix_date,
    **{
        f"to_{unit.lower()}s": _of_units(unit)
        for unit in ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
    },
}
