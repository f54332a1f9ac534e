"""Constant regular expressions, formats, paths and zones: they are tried before anything runs.  And
constants that systems take in different ways."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.errors import BindError, RunError
from penstock.plan.expressions import Call, Expression, Literal
from penstock.scalars.json_paths import path_of
from penstock.scalars.months import zone_of
from penstock.scalars.regular_expressions import REGULAR_EXPRESSIONS, groups_of, on_one_text
from penstock.scalars.time_formats import pieces_of, reading_of

_FORMATS: dict[str, Callable[[str], object]] = {
    "date_format": pieces_of,
    "to_timestamp": reading_of,
    "try_to_timestamp": reading_of,
    "json_get": path_of,
    "json_text": path_of,
    "json_value": path_of,
    "json_query": path_of,
    "at_time_zone": zone_of,
}
PATTERNS = {*REGULAR_EXPRESSIONS, *_FORMATS}


def check_pattern(call: Call) -> None:
    """An error points at the pattern."""
    constants = [each for each in call.arguments[1:] if isinstance(each, Literal)]
    values = [each.value for each in constants]
    if len(constants) < len(call.arguments) - 1 or None in values:
        return
    try:
        if call.function in _FORMATS:
            _FORMATS[call.function](values[0])
        else:
            on_one_text(call.function)("", *values)
    except RunError as error:
        raise BindError(
            error.message, span=constants[0].span, expected=error.expected, hint=error.hint
        ) from None
    if call.function == "regexp_extract" and len(values) == 1 and groups_of(values[0]):
        raise BindError(
            "regexp_extract does not say which group",
            span=call.span,
            expected="0 for all that matches, 1 for the first group",
            hint="regexp_extract(text, pattern, 1)",
        )


def refuse_lone_backslash(pattern: Expression) -> None:
    """In a pattern of LIKE, before another character than %, _ or a backslash."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return
    if re.search(r"\\(?![%_])", pattern.value.replace("\\\\", "")):
        raise BindError(
            "a backslash in a pattern of LIKE stands before %, _ or another backslash",
            span=pattern.span,
            expected="two of them for a backslash, as in PostgreSQL and Spark",
            hint="LIKE … ESCAPE '!' where backslashes are to be characters like others",
        )


def refuse_place_0(call: Call) -> None:
    """`substr(text, 0, n)`"""
    _, start, *length = call.arguments
    if length and isinstance(start, Literal) and start.value == 0:
        raise BindError(
            "a text that begins at 0 has one character less in PostgreSQL and DuckDB than in Spark"
            " and Flink",
            span=start.span or call.span,
            expected="1 for the first character",
        )
