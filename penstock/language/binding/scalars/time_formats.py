"""Formats of times as other systems write them, `to_char` of PostgreSQL and `strftime` of DuckDB,
made formats of `date_format`."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.errors import BindError
from penstock.model.types import BIGINT, DATE, STRING, TIMESTAMP, Kind
from penstock.plan.expressions import Call, Cast, Expression, Literal, cast_to

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
    """In large letters or in small ones.

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
    """What to_timestamp reads in Spark and Flink, or in PostgreSQL, whose years are large or whose
    hours and minutes say so."""
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
    """The function of ours for another's, whose format is its second argument."""

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
    """Of a text, of a text and its format, or of seconds since 1970."""
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
