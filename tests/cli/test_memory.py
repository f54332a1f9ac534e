"""Files that are larger than what a run may hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTE = "some text that makes the row a little longer than it needs to be"
CSV, JSON = f"%d,%d,{NOTE}\n", f'{{"t": %d, "k": %d, "note": "{NOTE}"}}\n'
AHEAD = 150  # megabytes of a CSV file that Arrow may read ahead
SCRIPT = """\
CREATE STREAM s (t INT, k INT, note STRING) FROM FILES '{name}' PROGRESS ON t DELAY 100;
SELECT k, count(*) AS n, max(note) AS note [RANGE 10000, SLIDE 5000, WA t] FROM s GROUP BY k;
SELECT t, note FROM s WHERE t % 20 = 0;
"""
# The command, and how much memory it had at most, in kilobytes.
MEASURED = """\
import resource, sys
from penstock.cli.main import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak(here: Path, name: str) -> int:
    """In megabytes."""
    (here / "script.sql").write_text(SCRIPT.format(name=name))
    arguments = ["run", "script.sql", "--format", "jsonl", "--output", "result"]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        cwd=here,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PENSTOCK_ENGINE": "local"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stderr.splitlines()[-1]) // 1024


def write(path: Path, rows: int) -> int:
    """A file of so many rows; its size in megabytes."""
    line = CSV if path.suffix == ".csv" else JSON
    with path.open("w") as file:
        if line is CSV:
            file.write("t,k,note\n")
        file.writelines(line % (t, t % 7) for t in range(rows))
    return path.stat().st_size >> 20


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "rows"), [("csv", 4_000_000), ("jsonl", 1_500_000)])
def test_a_large_file_is_not_held_in_memory(here: Path, ending: str, rows: int) -> None:
    """Two results at once: the second one waits in a file, not in memory either."""
    write(here / f"small.{ending}", 50_000)
    size = write(here / f"large.{ending}", rows)
    ahead = AHEAD if ending == "csv" else 0
    assert size > ahead + 120
    small, large = peak(here, f"small.{ending}"), peak(here, f"large.{ending}")
    assert large - small < ahead + 60
