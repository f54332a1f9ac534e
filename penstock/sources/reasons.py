"""How a reject is worded: what was found, what it should have been, and the row as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.model.types import Type

_WIDTH = 80


def quoted(value: object) -> str:
    """The value as Python writes it, cut to a readable width."""
    text = _written(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 2] + "…" + text[-1]


def is_not(found: str, sql_type: Type) -> str:
    """
    >>> from penstock.model.types import INT
    >>> is_not(quoted("abc"), INT)
    "'abc' is not an INT"
    """
    name = str(sql_type)
    return f"{found} is not {'an' if name[0] in 'AEIOU' else 'a'} {name}"


def does_not_fit(found: str, sql_type: Type) -> str:
    return f"{found} does not fit {sql_type}"


def row_as_json(row: object) -> str:
    """The row as JSON text, whatever it is made of.

    >>> row_as_json({"id": 1, "raw": b"\\xff"})
    '{"id": 1, "raw": "ff"}'
    """
    try:
        text = json.dumps(row, default=_plain, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_written(row))
    return text


def _written(value: object, how: Callable[[object], str] = repr) -> str:
    try:
        return str(value) if isinstance(value, Decimal) else how(value)
    except Exception:  # an int of thousands of digits, or somebody else's class
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return _written(value, str)
