"""Values as text: one place that says how every type is written out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from penstock.model.calendar import format_date, format_timestamp
from penstock.model.duration import format_duration
from penstock.model.types import Kind, Type


def to_text(value: Any, sql_type: Type) -> str:
    """A plain value (not None) as it is shown to people and written to files."""
    match sql_type.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.TIMESTAMP:
            return format_timestamp(value)
        case Kind.DATE:
            return format_date(value)
        case Kind.INTERVAL:
            return format_duration(value)
        case Kind.BINARY:
            return bytes(value).hex()
        case Kind.DECIMAL:
            return f"{value:f}"
        case Kind.DOUBLE:
            return repr(value)
        case Kind.ARRAY | Kind.STRUCT | Kind.MAP:
            return to_json(value, sql_type)
        case _:
            return str(value)


def to_json(value: Any, sql_type: Type) -> str:
    """A plain value as JSON: numbers as numbers, NULL as null, and as text what JSON has no number
    for."""
    if value is None:
        return "null"
    match sql_type.kind:
        case Kind.INT | Kind.BIGINT | Kind.DECIMAL | Kind.BOOLEAN:
            return to_text(value, sql_type)
        case Kind.DOUBLE:
            if math.isfinite(value):
                return repr(value)
            return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        case Kind.ARRAY:
            return f"[{', '.join(to_json(each, sql_type.item) for each in value)}]"
        case Kind.STRUCT:
            fields = zip(sql_type.parts, value, strict=True)
            return _object([(name, to_json(each, part)) for (name, part), each in fields])
        case Kind.MAP:
            (_, key_type), (_, item) = sql_type.parts
            return _object([(to_text(key, key_type), to_json(each, item)) for key, each in value])
        case _:
            return json.dumps(to_text(value, sql_type), ensure_ascii=False)


def _object(members: list[tuple[str, str]]) -> str:
    """
    >>> print(_object([("a", "1")]))
    {"a": 1}
    """
    shown = (f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in members)
    return "{" + ", ".join(shown) + "}"


def frequencies_json(pairs: Iterable[tuple[Any, int]], sql_type: Type) -> str:
    """Values with their counts, as top_k and heavy_hitters give them.

    >>> from penstock.model.types import STRING
    >>> frequencies_json([("a", 3), ("b", 1)], STRING)
    '[["a", 3], ["b", 1]]'
    """
    return "[" + ", ".join(f"[{to_json(v, sql_type)}, {count}]" for v, count in pairs) + "]"
