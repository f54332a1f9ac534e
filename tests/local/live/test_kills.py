"""Live engines that are killed at any moment: queries, rows and accounts are all there, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.live.kills import ENDINGS, LivePlace, in_one_go, rows_of, state_of, summary
from tests.waiting import LONGEST

ROOT = Path(__file__).parents[3]


def check(tmp_path: Path, kills: int, follow: bool, seed: int) -> None:
    # in a process without threads, which can be forked
    folder = tmp_path / "killed"
    script = (
        "import sys; from pathlib import Path; from tests.local.live.kills import *\n"
        "folder, kills, follow, seed = sys.argv[1:]\n"
        "place = LivePlace(Path(folder), int(seed), follow == 'True')\n"
        "killed_often(place, int(kills)); print(place.kills)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(kills), str(follow), str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST + 5 * kills,
    )
    assert done.returncode == 0, done.stderr
    place = LivePlace.__new__(LivePlace)
    place.folder = folder
    must, may = state_of(folder / "journal.jsonl")
    told = {str(each["name"]): each for each in summary(folder)}
    assert must <= told.keys() <= must | may
    whole = tmp_path / "whole"
    whole.mkdir()
    lost = doubled = 0
    for number in range(sum(1 for _ in (folder / "rows").iterdir()) + 5):
        ending = ".jsonl" if number < 2 else ENDINGS[number // 2 % 3]
        path = folder / "rows" / f"q{number}{ending.rstrip('/')}"
        if not path.exists():
            continue
        account, expected_rows = in_one_go(place, number, whole)
        found, expected = rows_of(path), rows_of(expected_rows)
        doubled += (found - expected).total()
        if f"q{number}" in told:
            query = told[f"q{number}"]
            assert query["state"] == "caught up"
            lost += (expected - found).total()
            assert query["written"] == expected.total()
            counted = (query["read"], query["late"], query["rejected"])
            assert counted == (account.read, account.late, account.rejected)
    print(f"{done.stdout.strip()} kills, {lost} lost, {doubled} doubled")
    assert told
    assert (lost, doubled) == (0, 0)


@pytest.mark.parametrize("follow", [False, True])
def test_some_kills(tmp_path: Path, follow: bool) -> None:
    check(tmp_path, 5, follow, seed=5)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_many_kills(tmp_path: Path, follow: bool, seed: int) -> None:
    check(tmp_path, 50, follow, seed)
