"""The scalar functions on times."""

from __future__ import annotations

from penstock.functions.signature import Family
from penstock.functions.type_rules import Entry, always, like_first, like_last, takes
from penstock.model.types import BIGINT, DATE, STRING, TIMESTAMP

_F = Family
TIMES: list[Entry] = [
    ("date_trunc", takes(_F.STRING, _F.TIME), like_last, "down to a whole unit"),
    ("date_part", takes(_F.STRING, _F.TIME), always(BIGINT), "one field of a time"),
    *[
        (field, takes(_F.TIME), always(BIGINT), f"the {field} of a time")
        for field in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ],
    ("isodow", takes(_F.TIME), always(BIGINT), "1 for Monday to 7 for Sunday"),
    ("dayofyear", takes(_F.TIME), always(BIGINT), "1 for the first of January"),
    ("epoch", takes(_F.TIMESTAMP), always(BIGINT), "whole seconds since 1970"),
    ("epoch_ms", takes(_F.TIMESTAMP), always(BIGINT), "whole milliseconds since 1970"),
    ("epoch_us", takes(_F.TIMESTAMP), always(BIGINT), "microseconds since 1970"),
    ("timestamp_seconds", takes(_F.INTEGER), always(TIMESTAMP), "from seconds since 1970"),
    ("timestamp_millis", takes(_F.INTEGER), always(TIMESTAMP), "from milliseconds"),
    ("timestamp_micros", takes(_F.INTEGER), always(TIMESTAMP), "from microseconds"),
    (
        "time_bucket",
        takes(_F.INTERVAL, _F.TIMESTAMP, _F.TIMESTAMP, optional=1),
        always(TIMESTAMP),
        "down to a multiple of a length of time, counted from 1970 or an origin",
    ),
    (
        "number_bucket",
        takes(_F.INTEGER, _F.INTEGER, _F.INTEGER, optional=1),
        always(BIGINT),
        "down to a multiple of a number, counted from 0 or an origin",
    ),
    ("date", takes(_F.TIME), always(DATE), "the day of a time"),
    (
        "date_format",
        takes(_F.TIMESTAMP, _F.STRING),
        always(STRING),
        "a time as a text, written as `yyyy-MM-dd HH:mm:ss` says",
    ),
    (
        "to_timestamp",
        takes(_F.STRING, _F.STRING),
        always(TIMESTAMP),
        "the time that a text says, written as `yyyy-MM-dd HH:mm:ss` says",
    ),
    (
        "try_to_timestamp",
        takes(_F.STRING, _F.STRING),
        always(TIMESTAMP),
        "the same, NULL if it is not written so",
    ),
    (
        "add_months",
        takes(_F.TIME, _F.INTEGER),
        like_first,
        "so many calendar months later, on the last day if there is none so late",
    ),
    (
        "at_time_zone",
        takes(_F.TIMESTAMP, _F.STRING),
        always(TIMESTAMP),
        "what a clock in a time zone shows at a moment",
    ),
]
