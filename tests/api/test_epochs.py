"""Times that come as numbers, from wherever rows come, and numbers where nobody says what they
count."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

MILLIS = [1769860800123, 1769860801456, None]
MOMENTS = [
    datetime.datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=datetime.UTC),
    datetime.datetime(2026, 1, 31, 12, 0, 1, 456000, tzinfo=datetime.UTC),
    None,
]


def moments(db: ps.Database) -> list[Any]:
    found: list[Any] = db.sql("SELECT ts FROM s").collect().column("ts").to_pylist()
    return found


async def asynchronous() -> AsyncIterator[dict[str, Any]]:
    for each in MILLIS:
        await asyncio.sleep(0)
        yield {"ts": each}


ROWS: dict[str, Callable[[], object]] = {
    "dicts": lambda: [{"ts": each} for each in MILLIS],
    "tuples": lambda: [(each,) for each in MILLIS],
    "texts": lambda: [{"ts": each and str(each)} for each in MILLIS],
    "decimals": lambda: [{"ts": each and Decimal(each)} for each in MILLIS],
    "generator": lambda: ({"ts": each} for each in MILLIS),
    "function": lambda: lambda: ({"ts": each} for each in MILLIS),
    "asynchronous": asynchronous,
    "arrow": lambda: pa.table({"ts": MILLIS}),
    "batches": lambda: iter(pa.table({"ts": MILLIS}).to_batches()),
    "doubles": lambda: pa.table({"ts": [each and float(each) for each in MILLIS]}),
    "pandas": lambda: pd.DataFrame({"ts": pd.array(MILLIS, "Int64")}),
    "polars": lambda: pl.DataFrame({"ts": MILLIS}),
}


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("made", ROWS.values(), ids=ROWS)
def test_rows(made: Callable[[], object], engine: str) -> None:
    db = ps.connect(engine)
    db.stream("s", made(), schema="ts TIMESTAMP EPOCH MILLISECONDS")
    assert moments(db) == MOMENTS


@pytest.mark.parametrize("unit", ["ms", "milliseconds", "MILLISECOND"])
@pytest.mark.parametrize("schema", [None, {"ts": "BIGINT"}, [("ts", "TIMESTAMP")]], ids=str)
def test_units_beside_the_schema(unit: str, schema: Any) -> None:
    for made in (pa.table({"ts": MILLIS}), [{"ts": each} for each in MILLIS]):
        db = ps.connect()
        db.stream("s", made, schema=schema, epoch={"ts": unit})
        db.table("t", made, schema=schema, epoch={"ts": unit})
        assert moments(db) == MOMENTS
        joined = db.sql("SELECT t.ts FROM s JOIN t ON s.ts = t.ts").collect()
        assert joined.column("ts").to_pylist() == MOMENTS[:2]
        assert str(db.sql("SHOW STREAMS")).count("ts TIMESTAMP EPOCH MILLISECONDS") == 2


def test_progress_on_numbers_that_are_times() -> None:
    db = ps.connect()
    rows = [{"ts": 1769860800 + each} for each in (0, 3, 12, 9)]
    db.stream("s", rows, epoch={"ts": "s"}, progress=ps.progress("ts", delay="1 second"))
    query = db.sql("SELECT count(*) AS n [RANGE 10 SECONDS, SLIDE 10 SECONDS, WA ts] FROM s")
    assert query.collect().column("n").to_pylist() == [2, 1]
    assert query.late.num_rows == 1


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        (1769860800, "SECONDS"),
        (1769860800123, "MILLISECONDS"),
        (1769860800.5, "SECONDS"),
        (1769860800123456, "MICROSECONDS"),
        (1769860800123456789, "NANOSECONDS"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_numbers_alone_are_no_times(number: float, unit: str, alone: bool) -> None:
    rows = [{"ts": number}] if alone else [{"ts": number}] * 20
    db = ps.connect()
    db.stream("s", rows, schema="ts TIMESTAMP")
    query = db.sql("SELECT ts FROM s")
    assert query.collect().num_rows == 0
    assert f"declare it TIMESTAMP EPOCH {unit}" in query.rejected.column("reason")[0].as_py()


def files(folder: Path) -> None:
    (folder / "s.csv").write_text('ts\n1769860800123\n1769860801456\n""\n')
    (folder / "s.jsonl").write_text('{"ts": 1769860800123}\n{"ts": "1769860801456"}\n{}\n')
    pq.write_table(pa.table({"ts": MILLIS}), folder / "s.parquet")


@pytest.mark.parametrize("engine", ["local", "reference"])
@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.parquet"])
def test_files(tmp_path: Path, name: str, engine: str) -> None:
    files(tmp_path)
    db = ps.connect(engine, base=tmp_path)
    db.sql(f"CREATE STREAM s (ts TIMESTAMP EPOCH MILLISECONDS) FROM FILES '{name}'")
    assert moments(db) == MOMENTS


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
@pytest.mark.parametrize("rows", [1, 40])
def test_what_is_finer_than_a_microsecond_is_cut_off(tmp_path: Path, name: str, rows: int) -> None:
    text = "1969-12-31T23:59:59.999999999+00:00"
    line = f'{{"ts": "{text}"}}\n' if name == "s.jsonl" else f"{text}\n"
    header = "" if name == "s.jsonl" else "ts\n"
    (tmp_path / name).write_text(header + line * rows)
    db = ps.connect(base=tmp_path)
    db.sql(f"CREATE STREAM s (ts TIMESTAMP) FROM FILES '{name}'")
    last = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
    assert moments(db) == [last] * rows


def test_another_unit_is_another_stream_for_a_checkpoint(tmp_path: Path) -> None:
    files(tmp_path)

    def run(unit: str) -> None:
        db = ps.connect(base=tmp_path)
        db.sql(
            f"CREATE STREAM s (ts TIMESTAMP EPOCH {unit}) FROM FILES 's.csv' PROGRESS ON ts ORDERED"
        )
        db.sql("SELECT ts FROM s").run(tmp_path / "out.jsonl", checkpoint=tmp_path / "saved")

    run("MILLISECONDS")
    run("MILLISECONDS")
    with pytest.raises(ps.CheckpointError, match=r"EPOCH MILLISECONDS(.*\n)*.*EPOCH SECONDS"):
        run("SECONDS")
