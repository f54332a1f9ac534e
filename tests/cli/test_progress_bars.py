"""Progress on a terminal: what is told about the streams that are read."""

from __future__ import annotations

import gzip
import io
import re
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import penstock as ps
from penstock.api.execution import Running, Target
from penstock.cli.report import ProgressBars
from penstock.io.sinks.sink import Collected
from penstock.io.sources.source import Chunk
from penstock.runs.status import WorkInProgress
from tests.waiting import LONGEST

ROWS = 30_000
COUNT = "SELECT count(*) AS n [RANGE 10000, SLIDE 10000, WA t] FROM s"


@pytest.fixture
def query(tmp_path: Path) -> ps.Query:
    lines = "".join(f"{t}\n" for t in range(ROWS))
    (tmp_path / "a.csv").write_text(f"t\n{lines}0\n")
    db = ps.connect(base=tmp_path)
    db.sql("CREATE STREAM s (t INT) FROM FILES 'a.csv' PROGRESS ON t ORDERED")
    found = db.sql(COUNT)
    assert isinstance(found, ps.Query)
    return found


def shown(query: ps.Query, hide_after: int | None = None) -> str:
    """The text on the terminal, without colours."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=200)
    with ProgressBars(console, hide_after) as bars:
        Running(query.setting, [query.plan], [Target(Collected())], watch=bars.watch).drive()
    return re.sub(r"\x1b\[[\d;?]*\w", "", file.getvalue())


def test_rows_bytes_progress_and_late_tuples(query: ps.Query) -> None:
    text = shown(query)
    assert re.search(r"s .* 0\.2 of 0\.2 MB, 30,001 rows, ", text, re.MULTILINE)
    assert "rows/s" in text
    assert f"up to {ROWS - 1}" in text
    assert "1 late" in text


def test_the_lines_give_way_to_rows(query: ps.Query) -> None:
    assert "30,001 rows" not in shown(query, hide_after=1)


def test_positions_in_files(tmp_path: Path) -> None:
    """How far a run has come, in bytes of what lies on the disk."""
    lines = "".join(f"{t}\n" for t in range(ROWS))
    (tmp_path / "a.csv").write_text(f"t\n{lines}")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(f"t\n{lines}".encode()))
    json_lines = "".join(f'{{"t": {t}}}\n' for t in range(ROWS))
    (tmp_path / "c.jsonl").write_text(json_lines)
    pq.write_table(pa.table({"t": pa.array(range(ROWS), pa.int32())}), tmp_path / "d.parquet")
    db = ps.connect(base=tmp_path)
    db.sql("CREATE STREAM s (t INT) FROM FILES '*.*'")
    query = db.sql("SELECT t FROM s")
    assert isinstance(query, ps.Query)
    positions: list[int] = []

    def watch(run: object, scan: object, chunk: Chunk) -> None:
        positions.append(chunk.position)

    Running(query.setting, [query.plan], [Target(Collected())], watch=watch).drive()
    size = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert positions == sorted(positions)
    assert positions[-1] == size


def test_what_spark_does_meanwhile() -> None:
    file = io.StringIO()
    asked = threading.Event()

    def doing() -> WorkInProgress:
        if again.is_set():
            asked.set()
        again.set()
        return WorkInProgress(
            3, tasks_done=4, tasks=9, bytes_read=2_000_000, bytes_there=10_000_000
        )

    again = threading.Event()
    with ProgressBars(Console(file=file, force_terminal=True, width=200)) as bars:
        bars.begin_spark()
        with bars.following(doing):
            assert asked.wait(LONGEST)
        bars.say("stopping")
    text = re.sub(r"\x1b\[[\d;?]*\w", "", file.getvalue())
    assert "Spark starts" in text
    assert "2.0 of 10.0 MB, micro-batch 3, 4 of 9 tasks" in text
    assert "stopping\n" in text


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_positions_are_those_of_the_rows(tmp_path: Path, name: str) -> None:
    """Not of what the reader has read ahead of them."""
    rows = 400_000
    if name == "a.jsonl":
        text = "".join(f'{{"t": {t}, "x": {t * 7**20 % 10**18}}}\n' for t in range(rows))
    else:
        text = "t,x\n" + "".join(f"{t},{t * 7**20 % 10**18}\n" for t in range(rows))
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith("gz") else data)
    size = (tmp_path / name).stat().st_size
    db = ps.connect(base=tmp_path)
    db.sql(f"CREATE STREAM s (t INT) FROM FILES '{name}'")
    query = db.sql("SELECT t FROM s")
    assert isinstance(query, ps.Query)
    shares: list[tuple[float, float]] = []
    read = 0

    def watch(run: object, scan: object, chunk: Chunk) -> None:
        nonlocal read
        read += chunk.num_rows
        shares.append((chunk.position / size, read / rows))

    Running(query.setting, [query.plan], [Target(Collected())], watch=watch).drive()
    assert len(shares) > 4
    assert all(abs(shown - true) < 0.05 for shown, true in shares)
    assert shares[-1] == (1.0, 1.0)
