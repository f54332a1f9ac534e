"""Runs in process that are killed at any moment: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.kills import QUERIES, Place, contents
from tests.waiting import LONGEST

ROOT = Path(__file__).parents[2]
PLACES = [
    ("rows.jsonl", "late.jsonl", "rejected.jsonl"),
    ("rows.csv", "late", "rejected/"),
    ("rows", "late.jsonl", "rejected.jsonl"),
]


def in_one_go(killed: Place, folder: Path) -> Place:
    """The same data in a run that nobody disturbs."""
    whole = Place(folder, killed.rows, killed.late, killed.rejected, killed.seed, killed.asked)
    for source in (killed.data, killed.folder / "log.jsonl"):
        target = folder / source.name
        if source.is_dir():
            for each in source.iterdir():
                (target / each.name).write_bytes(each.read_bytes())
        else:
            target.write_bytes(source.read_bytes())
    whole.run(final=True)
    return whole


def check(places: tuple[str, str, str], kills: int, tmp_path: Path, asked: str = "windows") -> None:
    # in a process without threads, which can be forked
    folder = tmp_path / "killed"
    script = (
        "import sys; from pathlib import Path; from tests.local.kills import *\n"
        "folder, *places, kills, asked = sys.argv[1:]\n"
        "place = Place(Path(folder), *places, seed=int(kills), asked=asked)\n"
        "killed_often(place, int(kills)); print(place.kills)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), *places, str(kills), asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST + 5 * kills,
    )
    assert done.returncode == 0, done.stderr
    killed = Place(tmp_path / "unused", *places, seed=kills, asked=asked)
    killed.folder, killed.data = folder, folder / "data"
    whole = in_one_go(killed, tmp_path / "whole")
    lost = doubled = 0
    for name in places:
        found, expected = contents(folder / name), contents(whole.folder / name)
        assert expected
        lost += (expected - found).total()
        doubled += (found - expected).total()
    print(f"{done.stdout.strip()} kills, {lost} lost, {doubled} doubled")
    assert (lost, doubled) == (0, 0)


def check_shared(tmp_path: Path, seed: int, kills: int) -> None:
    """Two checkpoints that take turns with their outputs: `shared_outputs.py`."""
    command = [sys.executable, "-m", "tests.local.shared_outputs"]
    done = subprocess.run(
        [*command, str(tmp_path / "shared"), str(seed), str(kills)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST + 5 * kills,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_some_kills_with_shared_outputs(tmp_path: Path) -> None:
    check_shared(tmp_path, 1, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many_kills_with_shared_outputs(seed: int, tmp_path: Path) -> None:
    """500 in all."""
    check_shared(tmp_path, seed, 100)


ASKED = ("windows", "difference", "join")  # of each place


@pytest.mark.parametrize(("places", "asked"), list(zip(PLACES, ASKED, strict=True)))
def test_some_kills(places: tuple[str, str, str], asked: str, tmp_path: Path) -> None:
    check(places, 5, tmp_path, asked)


@pytest.mark.slow
@pytest.mark.parametrize("asked", QUERIES)
@pytest.mark.parametrize("places", PLACES)
def test_many_kills(places: tuple[str, str, str], asked: str, tmp_path: Path) -> None:
    check(places, 70, tmp_path, asked)
