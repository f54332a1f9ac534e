"""The catalogue of scalar functions.  NULL in, NULL out, unless a function says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.functions.choices import CHOICES
from penstock.functions.nested import NESTED
from penstock.functions.numbers import NUMBERS
from penstock.functions.signature import Signature
from penstock.functions.texts import TEXTS
from penstock.functions.times import TIMES
from penstock.functions.type_rules import TypeRule


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    name: str
    signature: Signature
    returns: TypeRule
    about: str
    monotone: bool = False  # never goes down as its last argument goes up: progress passes through


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
    for name, signature, returns, about in (*TEXTS, *NUMBERS, *TIMES, *CHOICES, *NESTED)
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
