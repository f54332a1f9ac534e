"""What the identity of a query says, and what it leaves out."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.plan.identity import algorithms, differences, identity

STREAMS = """
CREATE STREAM s (k STRING, j INT, x INT, y DOUBLE, ts TIMESTAMP) PROGRESS ON ts DELAY 5 SECONDS;
CREATE STREAM r (k STRING, j INT, x INT, y DOUBLE, ts TIMESTAMP) PROGRESS ON ts DELAY 5 SECONDS;
CREATE STREAM v (x INT);
CREATE TABLE n (k STRING, w INT);
"""
MINUTE = "[RANGE 1 MINUTE, SLIDE 30 SECONDS, WA ts]"


def plan(sql: str, streams: str = STREAMS, engine: str = "local") -> ps.Query:
    *_, query = ps.connect(engine).script(f"{streams};{sql}")
    assert isinstance(query, ps.Query)
    return query


def lines(sql: str, streams: str = STREAMS) -> list[str]:
    return identity(plan(sql, streams).plan)


SAME = {
    "aliases of results": (
        f"SELECT k, sum(x) AS a {MINUTE} FROM s GROUP BY k",
        f"SELECT k AS key, sum(x) AS b {MINUTE} FROM s GROUP BY k",
    ),
    "order of results": (
        f"SELECT k, sum(x), count(*), max(y) {MINUTE} FROM s GROUP BY k",
        f"SELECT max(y), count(*), k, sum(x) {MINUTE} FROM s GROUP BY k",
    ),
    "order of keys": (
        f"SELECT count(*) {MINUTE} FROM s GROUP BY k, j",
        f"SELECT count(*) {MINUTE} FROM s GROUP BY j, k",
    ),
    "order of the keys of groups": (
        "SELECT count(*), k, ts FROM s GROUP BY k, ts",
        "SELECT ts, k, count(*) FROM s GROUP BY ts, k",
    ),
    "order of partitions": (
        "SELECT k, j, count(*) [RANGE 5 ROWS, SLIDE 1 ROWS, WA row-num, PA (k, j)] FROM s",
        "SELECT j, k, count(*) [RANGE 5 ROWS, SLIDE 1 ROWS, WA row-num, PA (j, k)] FROM s",
    ),
    "DISTINCT in windows": (
        f"SELECT DISTINCT k, j {MINUTE} FROM s",
        f"SELECT DISTINCT j, k {MINUTE} FROM s",
    ),
    "an aggregate that is selected twice": (
        f"SELECT sum(x) AS a, sum(x) AS b {MINUTE} FROM s",
        f"SELECT sum(x) AS a {MINUTE} FROM s",
    ),
    "aliases of a table": (
        f"SELECT w, sum(x) AS a {MINUTE} FROM s JOIN n ON s.k = n.k GROUP BY w",
        f"SELECT q.w, sum(p.x) AS b {MINUTE} FROM n AS q JOIN s AS p ON p.k = q.k GROUP BY q.w",
    ),
    "aliases around DISTINCT ON": (
        f"SELECT DISTINCT ON (k) x, y {MINUTE} FROM s",
        f"SELECT DISTINCT ON (p.k) x AS a, y + x AS b {MINUTE} FROM s AS p ORDER BY ts",
    ),
    "aliases in a sub-query": (
        "SELECT x FROM s [RANGE 1 MINUTE] WHERE x IN (SELECT x FROM s [RANGE 1 MINUTE])",
        "SELECT p.x FROM s AS p [RANGE 1 MINUTE] "
        "WHERE x IN (SELECT t.x FROM s AS t [RANGE 1 MINUTE])",
    ),
    "what is computed from results": (
        f"SELECT sum(x) + 1 {MINUTE} FROM s",
        f"SELECT sum(x) * 2 {MINUTE} FROM s",
    ),
    "the alias of a stream": (
        f"SELECT k, sum(x) {MINUTE} FROM s GROUP BY k",
        f"SELECT one.k, sum(one.x) {MINUTE} FROM s AS one GROUP BY one.k",
    ),
    "aliases that would sort the other way": (
        "SELECT sum(a.x), sum(b.x) [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA b.ts]"
        " FROM s [RANGE 5 SECONDS] AS a, r [RANGE 5 SECONDS] AS b WHERE a.k = b.k",
        "SELECT sum(b.x), sum(a.x) [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA a.ts]"
        " FROM s [RANGE 5 SECONDS] AS b, r [RANGE 5 SECONDS] AS a WHERE b.k = a.k",
    ),
    "names inside": (
        f"SELECT sum(z) {MINUTE} FROM (SELECT x + 1 AS z, ts FROM s) AS inner_",
        f"SELECT sum(q) {MINUTE} FROM (SELECT ts, x + 1 AS q FROM s) AS other",
    ),
    "columns that come out without being kept": (
        f"SELECT sum(z) {MINUTE} FROM (SELECT x + 1 AS z, ts FROM s) AS i",
        f"SELECT sum(z) {MINUTE} FROM (SELECT k, x + 1 AS z, ts FROM s) AS i",
    ),
    "names in a union": (
        f"SELECT sum(z) {MINUTE} FROM"
        " (SELECT x AS z, ts FROM s UNION ALL SELECT x AS z, ts FROM r) AS u",
        f"SELECT sum(q) {MINUTE} FROM"
        " (SELECT ts, x AS q FROM s UNION ALL SELECT ts, x AS q FROM r) AS w",
    ),
    "a hint": (
        f"SELECT /*+ PANED */ sum(x) {MINUTE} FROM s",
        f"SELECT /*+ BUFFERING */ sum(x) {MINUTE} FROM s",
    ),
    "what becomes of late tuples": (
        f"SELECT sum(x) {MINUTE} FROM s LATE DROP",
        f"SELECT sum(x) {MINUTE} FROM s LATE SIDE",
    ),
    "how often there are early answers": (
        f"SELECT sum(x) {MINUTE} FROM s EMIT EARLY EVERY 1 SECOND",
        f"SELECT sum(x) {MINUTE} FROM s EMIT EARLY EVERY 2 SECONDS",
    ),
    "order of rows": (
        f"SELECT sum(x) {MINUTE} FROM s",
        f"SELECT sum(x) {MINUTE} FROM s EMIT IN ORDER",
    ),
    "the alias of a column of DISTINCT": (
        "SELECT DISTINCT k, ts FROM s",
        "SELECT DISTINCT k AS a, ts AS b FROM s",
    ),
}
SUM = f"SELECT sum(x) {MINUTE} FROM s"
DIFFERENT = {
    "the condition of a look-up": (
        f"SELECT sum(x) {MINUTE} FROM s JOIN n ON s.k = n.k",
        f"SELECT sum(x) {MINUTE} FROM s JOIN n ON s.k = n.k AND s.x > n.w",
    ),
    "the kind of a look-up": (
        f"SELECT sum(x) {MINUTE} FROM s JOIN n ON s.k = n.k",
        f"SELECT sum(x) {MINUTE} FROM s LEFT JOIN n ON s.k = n.k",
    ),
    "the kind of a join": (
        "SELECT s.x FROM s [RANGE 1 MINUTE] JOIN r [RANGE 1 MINUTE] ON s.k = r.k",
        "SELECT s.x FROM s [RANGE 1 MINUTE] SEMI JOIN r [RANGE 1 MINUTE] ON s.k = r.k",
    ),
    "the first row or the last": (
        f"SELECT DISTINCT ON (k) x {MINUTE} FROM s",
        f"SELECT DISTINCT ON (k) x {MINUTE} FROM s ORDER BY ts DESC",
    ),
    "the key of a row": (
        f"SELECT DISTINCT ON (k) x {MINUTE} FROM s",
        f"SELECT DISTINCT ON (j) x {MINUTE} FROM s",
    ),
    "the columns of a row": (
        f"SELECT DISTINCT ON (k) x, y {MINUTE} FROM s",
        f"SELECT DISTINCT ON (k) y, x {MINUTE} FROM s",
    ),
    "the aggregate": (SUM, f"SELECT avg(x) {MINUTE} FROM s"),
    "its argument": (SUM, f"SELECT sum(j) {MINUTE} FROM s"),
    "a constant": (f"SELECT sum(1) {MINUTE} FROM s", SUM),
    "the type of a constant": (
        f"SELECT sum(CAST(1 AS INT)) {MINUTE} FROM s",
        f"SELECT sum(CAST(1 AS BIGINT)) {MINUTE} FROM s",
    ),
    "a number and a text": (
        f"SELECT max(1) {MINUTE} FROM s",
        f"SELECT max('1') {MINUTE} FROM s",
    ),
    "exact and inexact constants": (
        f"SELECT sum(y * CAST(1.5 AS DOUBLE)) {MINUTE} FROM s",
        f"SELECT sum(y * CAST(1.5 AS DECIMAL(2, 1))) {MINUTE} FROM s",
    ),
    "DISTINCT in it": (SUM, f"SELECT sum(DISTINCT x) {MINUTE} FROM s"),
    "its filter": (
        f"SELECT sum(x) FILTER (WHERE j > 1) {MINUTE} FROM s",
        f"SELECT sum(x) FILTER (WHERE j > 2) {MINUTE} FROM s",
    ),
    "one more": (SUM, f"SELECT sum(x), count(*) {MINUTE} FROM s"),
    "a share": (
        f"SELECT quantile(x, 0.5) {MINUTE} FROM s",
        f"SELECT quantile(x, 0.9) {MINUTE} FROM s",
    ),
    "RANGE": (SUM, SUM.replace("1 MINUTE", "2 MINUTES")),
    "SLIDE": (SUM, SUM.replace("30 SECONDS", "20 SECONDS")),
    "the kind of window": (SUM, SUM.replace("RANGE 1 MINUTE", "RANGE ALL")),
    "ORIGIN": (SUM, SUM.replace("WA ts", "WA ts, ORIGIN TIMESTAMP '1970-01-01T00:00:01Z'")),
    "the windowing attribute": (SUM, SUM.replace("WA ts", "WA ts + INTERVAL 1 SECOND")),
    "a key": (
        f"SELECT sum(x) {MINUTE} FROM s GROUP BY k",
        f"SELECT sum(x) {MINUTE} FROM s GROUP BY j",
    ),
    "no key": (SUM, f"{SUM} GROUP BY k"),
    "a partition that is a key": (
        "SELECT k, count(*) [RANGE 5 ROWS, SLIDE 1 ROWS, WA row-num, PA k] FROM s",
        "SELECT k, count(*) [RANGE 5 ROWS, SLIDE 1 ROWS, WA row-num] FROM s GROUP BY k",
    ),
    "WHERE": (f"{SUM} WHERE x > 1", f"{SUM} WHERE x > 2"),
    "no WHERE": (SUM, f"{SUM} WHERE x > 1"),
    "HAVING": (f"{SUM} HAVING sum(x) > 1", f"{SUM} HAVING sum(x) > 2"),
    "a projection below": (
        f"SELECT sum(z) {MINUTE} FROM (SELECT x + 1 AS z, ts FROM s) AS i",
        f"SELECT sum(z) {MINUTE} FROM (SELECT x + 2 AS z, ts FROM s) AS i",
    ),
    "columns that change places under their names": (
        f"SELECT sum(a), max(b) {MINUTE} FROM (SELECT x AS a, j AS b, ts FROM s) AS i",
        f"SELECT sum(a), max(b) {MINUTE} FROM (SELECT j AS a, x AS b, ts FROM s) AS i",
    ),
    "the stream": (SUM, f"SELECT sum(x) {MINUTE} FROM r"),
    "the same stream twice": (
        f"SELECT sum(x) {MINUTE} FROM (SELECT x, ts FROM s UNION ALL SELECT x, ts FROM s) u",
        f"SELECT sum(x) {MINUTE} FROM (SELECT x, ts FROM s UNION ALL SELECT x, ts FROM r) u",
    ),
    "which side of a join": (
        "SELECT sum(a.x) [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA a.ts]"
        " FROM s [RANGE 5 SECONDS] AS a, s [RANGE 9 SECONDS] AS b WHERE a.k = b.k",
        "SELECT sum(b.x) [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA a.ts]"
        " FROM s [RANGE 5 SECONDS] AS a, s [RANGE 9 SECONDS] AS b WHERE a.k = b.k",
    ),
    "the window of a join": (
        "SELECT a.x FROM s [RANGE 5 SECONDS] AS a, s [RANGE 9 SECONDS] AS b WHERE a.k = b.k",
        "SELECT a.x FROM s [RANGE 9 SECONDS] AS a, s [RANGE 5 SECONDS] AS b WHERE a.k = b.k",
    ),
    "the keys of a difference": (
        "SELECT k FROM s [RANGE 9 SECONDS] EXCEPT ON (k) r [RANGE 2 SECONDS]",
        "SELECT k FROM s [RANGE 9 SECONDS] EXCEPT ON (j) r [RANGE 2 SECONDS]",
    ),
    "which window a column is of": (
        "SELECT max(w) [RANGE 1 HOUR, SLIDE 1 HOUR, WA e] FROM"
        f" (SELECT window_start AS w, window_end AS e, count(*) AS n {MINUTE} FROM s) AS i",
        "SELECT max(w) [RANGE 1 HOUR, SLIDE 1 HOUR, WA e] FROM"
        f" (SELECT window_end AS w, window_end AS e, count(*) AS n {MINUTE} FROM s) AS i",
    ),
    "AMEND": (SUM, f"{SUM} LATE AMEND"),
    "AMEND FOR": (f"{SUM} LATE AMEND FOR 1 MINUTE", f"{SUM} LATE AMEND FOR 2 MINUTES"),
    "EMIT EARLY": (SUM, f"{SUM} EMIT EARLY EVERY 1 SECOND"),
    "columns of DISTINCT": ("SELECT DISTINCT k, ts FROM s", "SELECT DISTINCT j, ts FROM s"),
    "their order": ("SELECT DISTINCT k, ts FROM s", "SELECT DISTINCT ts, k FROM s"),
    "the order of several keys that progress": (
        "SELECT ts, ts + INTERVAL 1 SECOND, first(x) FROM s GROUP BY 1, 2",
        "SELECT ts, ts + INTERVAL 1 SECOND, first(x) FROM s GROUP BY 2, 1",
    ),
    "groups and windows": (
        f"SELECT k, ts, count(*) {MINUTE} FROM s GROUP BY k, ts",
        "SELECT k, ts, count(*) FROM s GROUP BY k, ts",
    ),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_may_change(one: str, other: str) -> None:
    assert lines(one) == lines(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_may_not(one: str, other: str) -> None:
    assert lines(one) != lines(other)
    assert lines(one) == lines(one)


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_both_hosts_have_one_identity(one: str, other: str) -> None:
    assert identity(plan(one).plan) == identity(plan(other, engine="spark").plan)


STREAM = "CREATE STREAM s (k STRING, x INT, ts TIMESTAMP) "
PROMISES = {
    "DELAY": ("PROGRESS ON ts DELAY 5 SECONDS", "PROGRESS ON ts DELAY 1 MINUTE"),
    "SLACK": ("PROGRESS ON ts SLACK 5 ROWS", "PROGRESS ON ts SLACK 7 ROWS"),
    "IDLE AFTER": ("PROGRESS ON ts ORDERED", "PROGRESS ON ts ORDERED IDLE AFTER 1 SECOND"),
    "FUTURE LIMIT": (
        "PROGRESS ON ts ORDERED FUTURE LIMIT 1 HOUR",
        "PROGRESS ON ts ORDERED FUTURE LIMIT 2 HOURS",
    ),
    "source": (
        "FROM FILES 'a/*.csv' PROGRESS ON ts ORDERED",
        "FROM FILES 'b/*.jsonl' PROGRESS ON ts ORDERED",
    ),
}


@pytest.mark.parametrize(("one", "other"), PROMISES.values(), ids=PROMISES)
def test_promises_that_may_change(one: str, other: str) -> None:
    assert lines(SUM, STREAM + one) == lines(SUM, STREAM + other)


def test_promises_that_may_not() -> None:
    streams = [
        STREAM + "PROGRESS ON ts DELAY 5 SECONDS",
        STREAM + "PROGRESS ON ts ORDERED",
        STREAM + "PROGRESS ON ts SLACK 5 ROWS",
        STREAM + "PROGRESS ON ts DELAY 5 SECONDS PER k",
        STREAM + "PROGRESS ON ts DELAY 5 SECONDS PER x",
        STREAM + "PROGRESS ON ts PUNCTUATED WHEN x < 0 BOUND ts",
        STREAM + "PROGRESS ON ts PUNCTUATED WHEN x < 1 BOUND ts",
        STREAM + "PROGRESS ON ts PUNCTUATED WHEN x < 1 BOUND ts FOR k",
        STREAM + "PROGRESS ON ts INTERNAL",
        STREAM + "PROGRESS ON ts LATENT",
        STREAM.replace("INT", "BIGINT") + "PROGRESS ON ts ORDERED",
        STREAM.replace("k STRING", "l STRING") + "PROGRESS ON ts ORDERED",
    ]
    found = {tuple(lines(SUM, stream)) for stream in streams}
    assert len(found) == len(streams)


def test_it_can_be_read() -> None:
    sql = f"SELECT max(y) AS top, count(*) {MINUTE} FROM s AS a WHERE x > 1 GROUP BY k LATE AMEND"
    assert lines(sql) == [
        "LATE AMEND",
        "#1 windows [RANGE 1 MINUTE, SLIDE 30 SECONDS, WA s.ts]",
        "    by s.k STRING",
        "    count(*) BIGINT",
        "    max(s.y) DOUBLE",
        "  where (s.x > 1)",
        "    stream s (k STRING, j INT, x INT, y DOUBLE, ts TIMESTAMP)",
        "      progress on ts DELAY",
    ]


def test_differences_are_lines() -> None:
    other = SUM.replace("sum", "max").replace("30 SECONDS", "1 MINUTE")
    assert differences(lines(SUM), lines(other)) == [
        "-#1 windows [RANGE 1 MINUTE, SLIDE 30 SECONDS, WA s.ts]",
        "-    sum(s.x) BIGINT",
        "+#1 windows [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA s.ts]",
        "+    max(s.x) INT",
    ]


def test_algorithms_are_said_apart() -> None:
    inner = f"SELECT /*+ WID */ window_end AS e, count(*) AS n {MINUTE} FROM s"
    outer = f"SELECT /*+ BUFFERING */ sum(n) [RANGE 1 HOUR, SLIDE 1 HOUR, WA e] FROM ({inner}) AS i"
    assert algorithms(plan(outer).plan) == ["#1 WID", "#2 BUFFERING"]
    assert algorithms(plan("SELECT x FROM v").plan) == []
    assert algorithms(plan(f"{SUM} EMIT IN ORDER").plan) == [
        "#1 PANED",
        "rows in order: #1.window_start, #1.window_end, #1.sum(s.x)",
    ]


def test_a_query_that_repeats_itself_stays_short() -> None:
    sql = "SELECT x, ts FROM s"
    for _ in range(20):
        sql = f"SELECT x + x AS x, ts FROM ({sql}) AS i"
    found = lines(f"SELECT sum(x) {MINUTE} FROM ({sql}) AS i")
    assert sum(map(len, found)) < 2000
    other = lines(f"SELECT sum(x) {MINUTE} FROM ({sql.replace('x + x', 'x - x', 1)}) AS i")
    assert found != other
