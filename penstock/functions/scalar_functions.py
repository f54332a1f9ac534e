"""The catalogue of scalar functions, and their meaning on plain values that are not NULL."""

from __future__ import annotations

import decimal
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from penstock.functions.casts import truncate
from penstock.functions.json_paths import JSON
from penstock.functions.nested import NESTED_MEANINGS, NESTED_SIGNATURES
from penstock.functions.numbers import BITS, NUMBERS, TRIGONOMETRY
from penstock.functions.regular_expressions import REGULAR_EXPRESSIONS, on_one_text
from penstock.functions.signatures import (
    Entry,
    Family,
    Signature,
    TypeRule,
    like_first,
    like_last,
    takes,
)
from penstock.functions.texts import ENCODED, HASHES, TEXTS
from penstock.functions.time_formats import format_time, read_time, to_timestamp
from penstock.functions.times import TIMES, at_time_zone, highest_at_time_zone, lowest_at_time_zone
from penstock.model.types import EXACT

_F = Family
CHOICES: list[Entry] = [
    ("coalesce", takes(_F.ALIKE, variadic=True), like_first, "the first that is not NULL"),
    ("nullif", takes(_F.ALIKE, _F.ALIKE), like_first, "NULL if both are equal"),
    ("if", takes(_F.BOOLEAN, _F.ALIKE, _F.ALIKE), like_last, "one or the other"),
]


# The catalogue.  A NULL argument gives NULL, unless a function says otherwise.


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """Entry of the catalogue of scalar functions."""

    name: str
    signature: Signature
    returns: TypeRule
    about: str
    monotone: bool = (
        False  # never decreases as its last argument increases: progress passes through
    )


_MONOTONE = {
    "date_trunc",
    "floor",
    "ceil",
    "epoch",
    "epoch_ms",
    "epoch_us",
    "timestamp_seconds",
    "timestamp_millis",
    "timestamp_micros",
    "date",
}

SCALARS: dict[str, ScalarFunction] = {
    name: ScalarFunction(name, signature, returns, about, name in _MONOTONE)
    for name, signature, returns, about in (*TEXTS, *NUMBERS, *TIMES, *CHOICES, *NESTED_SIGNATURES)
}
ALIASES: dict[str, str] = {
    "ucase": "upper",
    "lcase": "lower",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substring": "substr",
    "instr": "strpos",
    "ceiling": "ceil",
    "signum": "sign",
    "dayofmonth": "day",
    "weekofyear": "week",
    "base64": "to_base64",
    "char": "chr",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "pow": "power",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "iff": "if",
    "extract": "date_part",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "unix_micros": "epoch_us",
    "unix_millis": "epoch_ms",
    "unix_seconds": "epoch",
    "date_bin": "time_bucket",
    "regexp": "regexp_like",
    "sha": "sha1",
    "shift_left": "shiftleft",
    "shift_right": "shiftright",
    "xor": "bitxor",
    "from_utc_timestamp": "at_time_zone",
    "json_extract": "json_get",
    "json_extract_string": "json_text",
    "get_json_object": "json_text",
    "array_length": "cardinality",
    "array_size": "cardinality",
    "size": "cardinality",
    "array_to_string": "array_join",
    "rlike": "regexp_like",
    "regexp_matches": "regexp_like",
    "regexp_substr": "regexp_extract",
}


def scalar(name: str) -> ScalarFunction | None:
    lower = name.lower()
    return SCALARS.get(ALIASES.get(lower, lower))


# The meaning of the scalar functions, on plain values that are not NULL.

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def compare(name: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return COMPARE[name](left, right)


# --- arithmetic ----------------------------------------------------------------------------------


def _divide(left: float, right: float) -> float:
    return left / right


def _div(left: Any, right: Any) -> Any:
    """Divide, truncating towards zero."""
    if isinstance(left, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return truncate(EXACT.divide(left, right))


def _mod(left: Any, right: Any) -> Any:
    """Remainder of the division that truncates towards zero, with the sign of the dividend."""
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) else math.nan
    if isinstance(left, int):
        rest = abs(left) % abs(right)
        return rest if left >= 0 else -rest
    return EXACT.remainder(left, right)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: EXACT.add(a, b) if isinstance(a, Decimal) else a + b,
    "subtract": lambda a, b: EXACT.subtract(a, b) if isinstance(a, Decimal) else a - b,
    "multiply": lambda a, b: EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b,
    "divide": _divide,
    "div": _div,
    "mod": _mod,
    "negate": lambda a: EXACT.minus(a) if isinstance(a, Decimal) else -a,
    "abs": lambda a: EXACT.abs(a) if isinstance(a, Decimal) else abs(a),
}


# --- numbers -------------------------------------------------------------------------------------


def _round(value: Any, places: int = 0) -> Any:
    """Round to so many places, halves away from zero. A DOUBLE counts as its decimal notation:
    2.675 becomes 2.68, though its binary value is a little less.
    """
    if isinstance(value, float):
        if not math.isfinite(value) or places > 1_100:  # no double has more places
            return value
        return math.copysign(float(_round_exactly(Decimal(repr(value)), places)), value)
    if isinstance(value, int):
        return int(_round_exactly(Decimal(value), min(places, 0)))
    return _round_exactly(value, places)


def _round_exactly(value: Decimal, places: int) -> Decimal:
    scale = -int(value.as_tuple().exponent)
    if places >= scale:
        return value
    if value.adjusted() + 1 < -places:  # more places are cut than there are
        return Decimal(0)
    wide = decimal.Context(prec=max(1, value.adjusted() + 2 + places))
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, wide)


def _to_whole(value: Any, down: bool) -> Any:
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1), ROUND_FLOOR if down else ROUND_CEILING, EXACT)
    if isinstance(value, float):
        return (
            value
            if not math.isfinite(value)
            else float(math.floor(value) if down else math.ceil(value))
        )
    return value


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _logarithm(log: Callable[[float], float]) -> Callable[[float], float]:
    def compute(value: float) -> float:
        if value > 0:
            return log(value)
        return -math.inf if value == 0 else math.nan

    return compute


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        negative = base < 0 and exponent % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


# --- texts ---------------------------------------------------------------------------------------


def _substr(text: str, start: int, length: int | None = None) -> str:
    """Substring from a position, 1 the first, −1 the last; a part that lies before the text is cut
    off.
    """
    begin = start - 1 if start > 0 else (len(text) + start if start < 0 else -1)
    end = len(text) if length is None else begin + max(0, length)
    return text[max(0, begin) : max(0, end)]


def _split_part(text: str, separator: str, number: int) -> str:
    pieces = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(pieces) + number
    return pieces[place] if number and 0 <= place < len(pieces) else ""


def _split_index(text: str, separator: str, index: int) -> str | None:
    pieces = text.split(separator) if separator else [text]
    return pieces[index] if 0 <= index < len(pieces) else None


def _like(text: str, pattern: str, flags: int = 0) -> bool:
    r"""Match a LIKE pattern: % is any text, _ any character; a backslash escapes the next one.

    A piece between two % is matched where it first occurs, without backtracking: a later place
    would not help the pieces behind it.  So many % cost no more than many other characters.
    """
    pieces = [""]
    for part in re.findall(r"\\.|%|_|[^\\%_]+|\\$", pattern, re.DOTALL):
        if part == "%":
            pieces.append("")
        elif part == "_":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(part[1:] if part[:1] == "\\" and part[1:] else part)
    first, *others = pieces
    translated = first
    if others:
        *between, last = others
        translated += "".join(f"(?>.*?{piece})" for piece in between if piece) + f".*{last}"
    return re.fullmatch(translated, text, re.DOTALL | flags) is not None


def _bucket(width: int, value: int, origin: int = 0) -> int | None:
    return value - (value - origin) % width if width > 0 else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "promised_as": lambda value, _: value,
    "time_bucket": _bucket,
    "number_bucket": _bucket,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "btrim": str.strip,
    "trim_leading": str.lstrip,
    "trim_trailing": str.rstrip,
    "substr": _substr,
    "left": lambda text, count: text[: max(0, count)],
    "right": lambda text, count: text[-count:] if count > 0 else "",
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "concat": lambda *texts: "".join(texts),
    "reverse": lambda text: text[::-1],
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, part: part in text,
    "strpos": lambda text, part: text.find(part) + 1,
    "split_part": _split_part,
    "split_index": _split_index,
    **{name: on_one_text(name) for name in REGULAR_EXPRESSIONS},
    **NESTED_MEANINGS,
    **BITS,
    **TRIGONOMETRY,
    **HASHES,
    **JSON,
    **ENCODED,
    "at_time_zone": at_time_zone,
    "lowest_at_time_zone": lowest_at_time_zone,
    "highest_at_time_zone": highest_at_time_zone,
    "date_format": format_time,
    "to_timestamp": to_timestamp,
    "try_to_timestamp": read_time,
    "like": _like,
    "ilike": lambda text, pattern: _like(text, pattern, re.IGNORECASE),
    "sign": lambda value: (value > 0) - (value < 0),
    "round": _round,
    "floor": lambda value: _to_whole(value, down=True),
    "ceil": lambda value: _to_whole(value, down=False),
    "sqrt": lambda value: math.sqrt(value) if value >= 0 else math.nan,
    "exp": _exp,
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "power": _power,
}
