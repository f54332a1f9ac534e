"""Workload C on Spark: joins of two streams beside Spark's own, and what Spark refuses.

Spark keeps the tuples of a stream-stream join in RocksDB, in a layout that has versions; both the
one that it takes by itself and version 4 are measured.  It refuses a join without equal keys, and
has no sequences: those are measured alone, per result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import penstock as ps
from benchmarks.joining import BAND, stream
from benchmarks.measuring import agree
from benchmarks.result import Bar, Result, Row
from benchmarks.spark.comparing import bar_plot
from benchmarks.spark.contest import CORES, Outcome, files, spark_session
from benchmarks.spark.contest import run as run_query
from penstock.spark.session.session import setting

COLUMNS = "k bigint, n bigint, ts timestamp"
VERSION = "spark.sql.streaming.join.stateFormatVersion"
DEFAULT, FOURTH = "Spark", "Spark, state format 4"
TIMES_FASTER = {1: 4.0, 10: 1.5}  # by micro-batches
NEAR = 5.0  # times as long for a result of a band join as for one by keys
CLOSED = 30_000_000  # µs before the end: what is younger may still find a partner
WITHIN = "r.ts BETWEEN l.ts - INTERVAL 5 SECONDS AND l.ts + INTERVAL 5 SECONDS"
OURS = "SELECT l.n AS n, r.n AS m, l.ts AS ts FROM l {kind} JOIN r ON l.k = r.k AND " + WITHIN
RECENT = "SELECT l.n AS n, r.n AS m FROM SEQUENCE(l THEN r MODE RECENT ON l.k = r.k)"


@dataclass(frozen=True, slots=True)
class Folders:
    left: Path
    right: Path


@contextmanager
def both(count: int, cuts: int) -> Iterator[Folders]:
    """Both streams in so many files each."""
    left, right = (pa.Table.from_batches([stream(count, seed)]) for seed in (1, 2))
    with files(left, cuts) as one, files(right, cuts) as other:
        yield Folders(one, other)


def source(folder: Path) -> DataFrame:
    reader = spark_session().readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def penstock_frame(sql: str, folders: Folders) -> DataFrame:
    db = ps.connect(spark_session(), buckets=CORES)
    for name, folder in (("l", folders.left), ("r", folders.right)):
        db.stream(name, source(folder), progress=ps.progress("ts", delay="3 seconds"))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query.dataframe()


def native_frame(kind: str, folders: Folders) -> DataFrame:
    left, right = (
        source(folder).withWatermark("ts", "3 seconds").alias(name)
        for name, folder in (("l", folders.left), ("r", folders.right))
    )
    joined = left.join(right, F.expr(f"l.k = r.k AND {WITHIN}"), kind.lower() or "inner")
    return joined.selectExpr("l.n AS n", "r.n AS m", "l.ts AS ts")


def run_native(kind: str, folders: Folders, who: str, keep_rows: bool = False) -> Outcome:
    version = {VERSION: "4"} if who == FOURTH else {}
    with setting(spark_session(), version):
        return run_query(lambda: native_frame(kind, folders), keep_rows=keep_rows)


def run(quick: bool = False) -> Result:
    count, band, rounds = (4_000, 2_000, 1) if quick else (200_000, 100_000, 2)
    rows: list[Row] = []
    bars: list[Bar] = []
    agreed: dict[str, int] = {}
    for kind in ("", "LEFT"):
        for cuts in (1, 2) if quick else (1, 10):
            what = f"C{', left outer' * bool(kind)} in {cuts} micro-batch{'es' * (cuts > 1)}"
            with both(count, cuts) as folders:
                best, found = contest(kind, folders, rounds)
            agreed |= {f"{what}: {name}": size for name, size in found.items()}
            rows += [row(what, name, outcome, count) for name, outcome in best.items()]
            if not kind:
                limit = round(1 / TIMES_FASTER[cuts if cuts == 1 else 10], 3)
                for theirs in (DEFAULT, FOURTH):
                    ratio = best["Penstock"].seconds / best[theirs].seconds
                    bars.append(Bar(f"{what}: time against {theirs}", limit, ratio))
            if not kind and cuts == 1:
                a_result = best["Penstock"].seconds / found["Penstock"]
    for what, sql, size in (("band of 1 s", BAND.sql, band), ("C, RECENT", RECENT, count)):
        outcome, results = alone(sql, size, rounds=1, quick=quick)
        rows.append(row(what, "Penstock", outcome, size))
        if sql is BAND.sql:
            ratio = outcome.seconds / results / a_result
            bars.append(Bar("a result of the band join against one of C", NEAR, ratio))
    title = f"{count:,} events in each of two streams, {band:,} for the band"
    return Result("spark_joins", title, rows, agreed, bars, partial(plot, rows))


def contest(kind: str, folders: Folders, rounds: int) -> tuple[dict[str, Outcome], dict[str, int]]:
    runs: dict[str, Callable[..., Outcome]] = {
        "Penstock": partial(run_query, lambda: penstock_frame(OURS.format(kind=kind), folders)),
        DEFAULT: partial(run_native, kind, folders, DEFAULT),
        FOURTH: partial(run_native, kind, folders, FOURTH),
    }
    answers = {name: make(keep_rows=True).rows for name, make in runs.items()}
    agreed = agree({name: closed(found) for name, found in answers.items() if found is not None})
    best: dict[str, Outcome] = {}
    for _ in range(rounds):
        for name, make in runs.items():
            made = make()
            if name not in best or made.seconds < best[name].seconds:
                best[name] = made
    return best, agreed


def closed(rows: pa.Table) -> pa.Table:
    """Without the rows that may still be changed by what a stream would say next."""
    ticks = rows.column("ts").cast(pa.timestamp("us")).cast(pa.int64())
    end = pc.max(ticks).as_py() - CLOSED
    kept = rows.filter(pc.less(ticks, end) if end > 0 else pc.greater_equal(ticks, 0))
    return kept.select(["n", "m"])


def alone(sql: str, count: int, rounds: int, quick: bool) -> tuple[Outcome, int]:
    """What Spark cannot do: the best run, and how many results it has or looks at."""
    with both(count, 2 if quick else 10) as folders:
        make = partial(penstock_frame, sql, folders)
        rows = run_query(make, keep_rows=True).rows
        assert rows is not None
        results = (
            pc.sum(rows.column("pairs")).as_py() if "pairs" in rows.column_names else len(rows)
        )
        best = min((run_query(make) for _ in range(rounds)), key=lambda each: each.seconds)
    return best, int(results or 1)


def row(what: str, who: str, outcome: Outcome, count: int) -> Row:
    return {
        "query": what,
        "system": who,
        "s": outcome.seconds,
        "events/s": 2 * count / outcome.seconds,
        "state KB": outcome.state_bytes / 1000,
    }


def plot(rows: list[Row], path: Path) -> None:
    """With the faster one of Spark's two layouts."""
    contests: dict[str, Row] = {}
    for each in rows:
        found = contests.setdefault(each["query"], {"query": each["query"]})
        name = f"{'Penstock' if each['system'] == 'Penstock' else 'Spark'} s"
        found[name] = min(each["s"], found.get(name, each["s"]))
    shown = [each for each in contests.values() if "Spark s" in each]
    for each in shown:
        each["times faster"] = each["Spark s"] / each["Penstock s"]
    bar_plot("Joins of two streams in micro-batches", shown, path)
