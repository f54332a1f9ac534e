"""Scalar functions and operators mean what they mean in DuckDB, where those of the same name do.

With NULLs, times before 1970, numbers below zero and texts of other letters.  What is different on
purpose stands in docs/coming-from.md, and is not among these.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

TEXTS = (
    "upper(s), lower(s), length(s), trim(s), ltrim(s), rtrim(s), substr(s, 2, 3), substr(s, -2),"
    " substr(s, 2), left(s, 2), right(s, 2), replace(s, 'X', 'yy'), reverse(s), repeat(s, 2),"
    " starts_with(s, 'a'), ends_with(s, 't'), contains(s, u), strpos(s, u), split_part(s, 'X', 2),"
    " split_part(s, 'X', -1), md5(s), sha1(s), sha256(s), lpad(s, 5, 'ab'), rpad(s, 5, '*'),"
    " lpad(s, 2, '*'), concat_ws('-', s, u), s || u, s || i, translate(s, 'aX', 'b'),"
    " s LIKE '%e%', s LIKE '!%%' ESCAPE '!', s ILIKE 'p%', s LIKE '_', s NOT LIKE '%X%',"
    " regexp_matches(s, '[a-z]+'), regexp_replace(s, '[a-z]', '<\\0>', 'g'), string_split(s, 'X'),"
    " coalesce(s, u), nullif(s, u), greatest(s, u), least(s, u), array_to_string(['a', s], '-')"
)
NUMBERS = (
    "abs(d), sign(i), sign(d), round(d), round(d, 1), floor(d), ceil(d), sqrt(abs(d)),"
    " exp(i / 1000), ln(abs(d) + 1), log2(abs(d) + 1), log10(abs(d) + 1), power(i, 2), sin(d),"
    " cos(i), atan(i), atan2(i, 3), degrees(i), radians(i), i % 3, mod(i, -3), i & 6, i | 6,"
    " xor(i, 6), i >> 1, ~i, greatest(i, 3), least(i, NULL, 3), i / 2, trunc(d),"
    " CAST(d AS INT), CAST(i AS VARCHAR), CAST(i AS DECIMAL(12, 2)), CAST(i AS BOOLEAN),"
    " TRY_CAST(s AS INT), i BETWEEN -3 AND 7, i IN (7, NULL), i NOT IN (7, NULL), coalesce(i, 0),"
    " nullif(i, 7), i IS DISTINCT FROM 7, CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END,"
    " i * 1.5, i - 0.25, i IS NULL OR d > 0, list_contains([1, 2], i), [i, 1][1], {'a': i}.a,"
    " MAP {'k': i}['k'], list_max([1, i]), list_concat([1], [i]), greatest(d, 1), least(d, i)"
)
TIMES = (
    "date_trunc('hour', ts), date_trunc('week', ts), date_trunc('month', ts),"
    " date_trunc('quarter', ts), date_trunc('year', ts), date_trunc('minute', ts), year(ts),"
    " quarter(ts), month(ts), week(ts), day(ts), hour(ts), minute(ts), second(ts), isodow(ts),"
    " dayofyear(day), epoch_us(ts), extract(week FROM day), ts + INTERVAL 1 MONTH,"
    " ts - INTERVAL 13 MONTHS, ts + INTERVAL 90 MINUTES, ts - INTERVAL 1 YEAR, day + 1,"
    " day - DATE '1970-01-01', last_day(day), date_diff('day', day, DATE '1970-01-01'),"
    " date_diff('month', ts, TIMESTAMP '1970-01-01'),"
    " date_diff('hour', ts, TIMESTAMP '1970-01-01'),"
    " date_diff('quarter', ts, TIMESTAMP '1970-01-01'), date_diff('year', day, DATE '1970-01-01'),"
    " time_bucket(INTERVAL 15 MINUTES, ts), time_bucket(INTERVAL 1 WEEK, ts),"
    " time_bucket(INTERVAL 2 DAYS, ts), time_bucket(INTERVAL 7 SECONDS, ts),"
    " time_bucket(INTERVAL 7 MINUTES, ts, TIMESTAMP '1970-01-01 00:03:00'),"
    " strftime(ts, '%Y-%m-%d %H:%M:%S.%f %j %a %B %y %I %p %u'), CAST(ts AS DATE),"
    " ts > TIMESTAMP '1970-01-01', CAST(day AS TIMESTAMP), CAST(day AS VARCHAR)"
)
JSON = (
    "j -> 'a', j ->> 'a', j -> '$.b[0]', j ->> '$.b[1].c', json_extract_string(j, '$.a'),"
    " j ->> 'nobody', json_valid(j)"
)
JSONS = ['{"a": "x", "b": [1, {"c": "é"}]}', '{"a": null, "b": []}', '{"a": {"b": 2}}', "[1]", None]
ROW = st.tuples(
    st.none() | st.integers(-2000, 2000) | st.sampled_from([0, 7, -7, -(2**31) + 1]),
    st.none() | st.sampled_from([0.0, -0.5, 2.5, -2.25, 1e6, 1.125, -1e-3]),
    st.none() | st.sampled_from(["", "Packet", " x ", "aXbXc", "日本語", "%5", "é%_", "12", "tt"]),
    st.none() | st.sampled_from(["a", "X", "本", "z"]),
    st.none() | st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),
    st.none() | st.dates(datetime.date(1800, 1, 1), datetime.date(2200, 1, 1)),
    st.sampled_from(JSONS),
)
SCHEMA = pa.schema(
    [
        *(("n", pa.int32()), ("i", pa.int32()), ("d", pa.float64()), ("s", pa.string())),
        *(("u", pa.string()), ("ts", pa.timestamp("us")), ("day", pa.date32()), ("j", pa.string())),
    ]
)


def numbered(expressions: str) -> str:
    """The expressions with names, split at the commas that are not inside of anything."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(expressions):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append(expressions[start:place])
            start = place + 1
    parts.append(expressions[start:])
    return ", ".join(f"{part} AS c{number}" for number, part in enumerate(parts))


def plain(value: Any) -> Any:
    match value:
        case float():
            return "nan" if math.isnan(value) else float(f"{value:.12g}")
        case Decimal():
            return float(value)
        case datetime.datetime():
            return value.replace(tzinfo=None)
        case list():
            return [plain(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize(
    "expressions", [TEXTS, NUMBERS, TIMES, JSON], ids=["texts", "numbers", "times", "json"]
)
@settings(deadline=None, max_examples=10)
@given(rows=st.lists(ROW, min_size=1, max_size=12))
def test_like_duckdb(engine: str, expressions: str, rows: list[tuple[Any, ...]]) -> None:
    columns = zip(*((number, *row) for number, row in enumerate(rows)), strict=True)
    table = pa.table(
        [pa.array(each, f.type) for each, f in zip(columns, SCHEMA, strict=True)], SCHEMA
    )
    sql = f"SELECT n, {numbered(expressions)} FROM given"
    db = ps.connect(engine)
    db.stream("given", table)
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    found = query.collect().to_pylist()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", table)
        expected = connection.sql(f"{sql} ORDER BY n").to_arrow_table().to_pylist()
    for one, other in zip(sorted(found, key=lambda row: row["n"]), expected, strict=True):
        assert {k: plain(v) for k, v in one.items()} == {k: plain(v) for k, v in other.items()}
