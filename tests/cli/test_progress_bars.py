"""Progress on a terminal: what is told about the streams that are read."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import penstock as ps
from penstock.api.running import Running, Target
from penstock.cli.progress_bars import ProgressBars
from penstock.sinks.sink import Collected
from penstock.sources.source import Chunk

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
