"""Functions and formats of times, with the names and units of other systems."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import BindError, Span, nearest
from penstock.model.durations import MICROSECONDS
from penstock.model.types import BIGINT, DATE, INTERVAL, STRING, TIMESTAMP, Kind
from penstock.plan.expressions import Call, Cast, Expression, Literal, cast_to
from penstock.sql.binder.literals import called, span_of, takes, text
from penstock.sql.binder.operators import chain

if TYPE_CHECKING:
    from penstock.sql.binder.expressions import ExpressionBinder

_TRUNC_UNITS = [
    *("microsecond", "millisecond", "second", "minute", "hour"),
    *("day", "week", "month", "quarter", "year"),
]
_PART_UNITS = [*_TRUNC_UNITS, "isodow", "dayofyear", "epoch"]
_OTHER_NAMES = {
    **{f"{unit}s": unit for unit in _TRUNC_UNITS[2:]},
    "sec": "second",
    "min": "minute",
    "mins": "minute",
    "hr": "hour",
    "mon": "month",
    "mm": "month",
    "mons": "month",
    "qtr": "quarter",
    "yyyy": "year",
    "yy": "year",
    "yr": "year",
    "weekofyear": "week",
    "dayofmonth": "day",
    "dd": "day",
    "doy": "dayofyear",
    "dayofweek_iso": "isodow",
    "dow_iso": "isodow",
}
_COUNTED_DIFFERENTLY = ("dayofweek", "dow", "weekday")


def unit_of(function: str, unit: Expression) -> Expression:
    """Normalize a unit."""
    units = _TRUNC_UNITS if function == "date_trunc" else _PART_UNITS
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    name = _OTHER_NAMES.get(name, name)
    if name in units:
        return Literal(name, STRING, span=unit.span)
    if name in _COUNTED_DIFFERENTLY and function == "date_part":
        raise BindError(
            f"{unit} begins with Sunday, which is 1 in Spark and Flink, and 0 in PostgreSQL",
            span=unit.span,
            hint="isodow, which is 1 for Monday to 7 for Sunday, or dayofweek(time) of Spark",
        )
    close = nearest(name, units)
    raise BindError(
        f"{unit} is not a unit of {function}",
        span=unit.span,
        expected=f"one of {', '.join(units)}",
        hint=f"'{close[0]}'" if close else None,
    )


# Formats of times as other systems write them (`to_char` of PostgreSQL, `strftime` of DuckDB),
# translated to formats of `date_format`.

_OF_POSTGRES = {
    "YYYY": "yyyy",
    "YY": "yy",
    "MM": "MM",
    "DDD": "DDD",
    "DD": "dd",
    "ID": "e",
    "IW": "ww",
    "HH24": "HH",
    "HH12": "hh",
    "HH": "hh",
    "MI": "mm",
    "SS": "ss",
    "MS": "SSS",
    "Q": "Q",
    "US": "SSSSSS",
    "AM": "a",
    "PM": "a",
    "FF3": "SSS",
    "FF6": "SSSSSS",
    "TZ": "zzz",
    "TZH:TZM": "xxx",
    "TZHTZM": "xx",
    "TZH": "x",
    "TZM": "'00'",
    "OF": "x",
    "Mon": "MMM",
    "Dy": "EEE",
    "FMMonth": "MMMM",
    "FMDay": "EEEE",
    "FMMM": "M",
    "FMDD": "d",
    "FMHH24": "H",
    "FMMI": "m",
}
_OF_C = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "-m": "M",
    "d": "dd",
    "-d": "d",
    "j": "DDD",
    "-j": "D",
    "H": "HH",
    "-H": "H",
    "I": "hh",
    "-I": "h",
    "M": "mm",
    "-M": "m",
    "S": "ss",
    "-S": "s",
    "f": "SSSSSS",
    "g": "SSS",
    "p": "a",
    "a": "EEE",
    "A": "EEEE",
    "b": "MMM",
    "B": "MMMM",
    "V": "ww",
    "u": "e",
    "z": "xx",
    "Z": "zzz",
    "F": "yyyy-MM-dd",
    "T": "HH:mm:ss",
}
_POSTGRES = re.compile(
    "|".join(sorted(_OF_POSTGRES, key=len, reverse=True)) + r'|"([^"]*)"|[A-Za-z]|[^A-Za-z"]+|"',
    re.IGNORECASE,
)
_ANY_CASE = {each.upper(): each for each in _OF_POSTGRES}
_SPELLED = (
    "AM",
    "PM",
    "TZ",
    "Mon",
    "Dy",
    "FMMonth",
    "FMDay",
)  # as they are written, so is the time
_C = re.compile(r"%(-?[A-Za-z%])|[^%]+|%")


def of_postgres(pattern: str, writes: bool = True) -> str:
    """Translate a pattern of PostgreSQL, in upper or lower case.

    >>> of_postgres('YYYY-MM-DD"T"hh24:mi')
    "yyyy-MM-dd'T'HH:mm"
    """
    made = ""
    for found in _POSTGRES.finditer(pattern):
        text = found[0]
        known = _ANY_CASE.get(text.upper(), "")
        if known in _SPELLED and writes and text != known:
            raise BindError(
                f"{text} writes in other letters than {known} in PostgreSQL",
                expected=f"{known} in the format {pattern!r}",
                hint="upper(to_char(…)) or lower(to_char(…))",
            )
        if known:
            made += _OF_POSTGRES[known]
        elif text == '"' or (text.isalpha() and text != "T"):
            raise BindError(
                f"{text} stands for nothing in the format {pattern!r} of PostgreSQL",
                expected=f"one of {', '.join(_OF_POSTGRES)}",
                hint="date_format(time, 'yyyy-MM-dd HH:mm:ss')",
            )
        else:
            made += _quoted(text if found[1] is None else found[1])
    return made


def of_c(pattern: str) -> str:
    """
    >>> of_c("%d of %B")
    "dd' of 'MMMM"
    """
    made = ""
    for found in _C.finditer(pattern):
        if found[0][0] != "%":
            made += _quoted(found[0])
        elif found[1] == "%":
            made += "%"
        elif found[1] in _OF_C:
            made += _OF_C[found[1]]
        else:
            raise BindError(
                f"{found[0]} stands for nothing in the format {pattern!r}",
                expected=f"one of {', '.join(f'%{each}' for each in _OF_C)}",
            )
    return made


def _quoted(text: str) -> str:
    if not any(each.isalpha() or each == "'" for each in text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _of_its_kind(pattern: str) -> str:
    """Translate a pattern of to_timestamp: of C or PostgreSQL if its letters say so (large years,
    or hours and minutes of PostgreSQL), of Spark and Flink otherwise."""
    if "%" in pattern:
        return of_c(pattern)
    if re.search("Y|D|HH24|hh24|MI|mi|FF", pattern):
        return of_postgres(pattern, writes=False)
    if "mm" in pattern and not re.search("[MLHhKk]", pattern):
        raise BindError(
            f"mm are minutes in the format {pattern!r}, and no hour is there",
            expected="MM for months",
        )
    return pattern


def _with(
    name: str, function: str, translate: Callable[[str], str]
) -> Callable[[list[Expression]], Expression]:
    """Build calls of a function of Penstock for another system's, whose format is its second
    argument."""

    def build(given: list[Expression]) -> Expression:
        writes = function == "date_format"
        if len(given) != 2:
            what = "time" if writes else "text"
            raise BindError(f"{name} takes a {what} and a format", expected=f"{name}({what}, '…')")
        value, pattern = given
        if not isinstance(pattern, Literal) or pattern.type.kind not in (Kind.STRING, Kind.NULL):
            raise BindError(f"the format of {name} is a constant text", span=pattern.span)
        wanted = (Kind.TIMESTAMP, Kind.DATE, Kind.NULL) if writes else (Kind.STRING, Kind.NULL)
        if value.type.kind not in wanted:
            expected = "a TIMESTAMP or DATE" if writes else "a STRING"
            raise BindError(
                f"argument 1 of {name} is {value.type.a}",
                span=value.span,
                expected=expected,
                hint="CAST(… AS STRING)" if writes else None,
            )
        result = STRING if writes else TIMESTAMP
        if pattern.value is None:
            return Literal(None, result)
        try:
            ours = Literal(translate(pattern.value), STRING, span=pattern.span)
        except BindError as error:
            error.span = pattern.span
            raise
        return Call(function, (cast_to(value, TIMESTAMP if writes else STRING), ours), result)

    return build


def _to_timestamp(given: list[Expression]) -> Expression:
    """Bind to_timestamp of a text, of a text and its format, or of seconds since 1970."""
    if len(given) != 1:
        return _with("to_timestamp", "to_timestamp", _of_its_kind)(given)
    (value,) = given
    if value.type.is_integer:
        return Call("timestamp_seconds", (cast_to(value, BIGINT),), TIMESTAMP)
    if value.type.kind not in (Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.NULL):
        raise BindError(
            f"to_timestamp takes a text or whole seconds, not {value.type.a}", span=value.span
        )
    return cast_to(value, TIMESTAMP)


def _to_date(given: list[Expression]) -> Expression:
    if len(given) == 1:
        (value,) = given
        if value.type.kind not in (Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.NULL):
            raise BindError(f"to_date takes a text or a time, not {value.type.a}", span=value.span)
        return cast_to(value, DATE)
    return Cast(_with("to_date", "to_timestamp", _of_its_kind)(given), DATE)


TIME_FORMATS: dict[str, Callable[[list[Expression]], Expression]] = {
    "to_char": _with("to_char", "date_format", of_postgres),
    "strftime": _with("strftime", "date_format", of_c),
    "strptime": _with("strptime", "to_timestamp", of_c),
    "try_strptime": _with("try_strptime", "try_to_timestamp", of_c),
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _with("try_to_timestamp", "try_to_timestamp", _of_its_kind),
    "to_date": _to_date,
}


# Functions on times by the names of other systems (`last_day`, `date_diff`, `timestampadd` and
# others), expressed with functions of the catalogue.

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
    """Count the units between two times: whole ones, as where the unit is a word in Spark and
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
    """Day of the week: 1 for Sunday, as in Spark and Flink."""
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
    """Bind Flink's to_timestamp_ltz: of seconds (0) or milliseconds (3), or of a text as
    to_timestamp."""
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


# Calls whose arguments are no values: a unit as a word, `timestampadd(DAY, 1, ts)`, and a length in
# calendar months, `date_add(day, INTERVAL 1 MONTH)`.

_BY_UNIT = ("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff")
_BY_LENGTH = {"date_add": exp.Add, "date_sub": exp.Sub}
TIME_CALLS = {*_BY_UNIT, *_BY_LENGTH}


def time_call(binder: ExpressionBinder, syntax: exp.Anonymous) -> Expression | None:
    """Bind a call with an argument that is no value, such as a unit; None if all are values."""
    name, given = str(syntax.name).lower(), syntax.expressions
    if len(given) == 2 and name in _BY_LENGTH and isinstance(given[1], exp.Interval):
        moved = _BY_LENGTH[name](this=given[0], expression=given[1])
        return chain(binder, moved)
    unit = given[0] if len(given) == 3 and name in _BY_UNIT else None
    if not isinstance(unit, exp.Column) or unit.table or not is_unit(unit.name):
        return None
    if binder.scope.matches(unit.name, None):
        return None
    word = Literal(unit.name, STRING, span=span_of(unit))
    arguments = [word, *(binder.bind(each) for each in given[1:])]
    if name in ("date_diff", "datediff", "timestampdiff"):
        return between(name, arguments, whole=True)
    return TIMES["dateadd" if name == "date_add" else name](arguments)


# time_bucket(width, time [, origin]) and date_bin: over times, or over whole numbers.

# Origin of time_bucket in DuckDB and TimescaleDB: a Monday, 2000-01-03.
_MONDAY = 946_857_600_000_000


def bucket(
    name: str, arguments: list[Expression], span: Span | None
) -> tuple[str, list[Expression]]:
    """Choose the function that computes a bucket, and its arguments. The width and the origin are
    constants, so that progress on the time is progress on the bucket."""
    if len(arguments) < 2:
        return name, arguments  # which is refused for that
    width, value, *origin = arguments
    for each in (width, *origin):
        if not isinstance(each, Literal) or each.value is None:
            raise BindError(f"the width and origin of {name} are constants", span=each.span or span)
    assert isinstance(width, Literal)
    if isinstance(width.value, int) and width.value <= 0:
        raise BindError(
            f"the width of {name} is {width}", span=width.span or span, expected="more than zero"
        )
    if value.type.is_integer:
        return "number_bucket", arguments
    of_times = width.type.kind is Kind.INTERVAL and name.lower() == "time_bucket"
    if of_times and not origin and _MONDAY % width.value:
        arguments = [width, value, Literal(_MONDAY, TIMESTAMP)]
    return name, arguments
