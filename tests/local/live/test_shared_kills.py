"""Queries that share panes come and go on a live engine that is killed at any moment: each has all
of its windows, once, from the row on at which it came."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from tests.local.live.shared_kills import LATE, OUT, ROWS, TEXT, stream
from tests.waiting import LONGEST

ROOT = Path(__file__).parents[3]


def check(folder: Path, kills: int, seed: int) -> None:
    # in a process without threads, which can be forked
    script = (
        "import sys; from pathlib import Path; from tests.local.live.shared_kills import *\n"
        "killed_often(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(kills), str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST + 5 * kills,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "told.json").read_text())
    assert told["shared"] >= 3
    assert any(0 < ROWS - each["read"] < ROWS for each in told["queries"].values())
    for name, counted in told["queries"].items():
        number = int(name[1:])
        came = ROWS - counted["read"]
        db = ps.connect()
        db.stream("s", list(stream(0)), schema=OUT, progress=LATE)
        query = db.sql(TEXT[number % len(TEXT)].replace("TRUE", f"n >= {came}"))
        assert isinstance(query, ps.Query)
        whole, alone = folder / f"{name}-whole.jsonl", folder / f"{name}-alone"
        assert query.run(whole, checkpoint=alone).late == counted["late"]
        assert sorted(_lines(folder / f"{name}.jsonl")) == sorted(_lines(whole)), (name, came)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_some_kills(tmp_path: Path) -> None:
    check(tmp_path, 4, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_many_kills(tmp_path: Path, seed: int) -> None:
    check(tmp_path, 50, seed)
