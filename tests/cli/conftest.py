"""The command in this process (fast) and in one of its own (pipes, signals), in an empty place."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.cli.main import main
from tests.signals import heard
from tests.waiting import ended_in_time

ROOT = Path(__file__).parents[2]

# Row 2 has a bad cell, row 4 no time; row 5 is late for every window that ends by 12:01.
READINGS = """\
k,v,ts
a,1,2026-01-31 12:00:10
b,x,2026-01-31 12:00:20
,3,2026-01-31 12:02:00
c,4,
d,,2026-01-31 12:00:30
"""
STREAM = (
    "CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) FROM FILES 'readings.csv'"
    " PROGRESS ON ts ORDERED;\n"
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory but for the readings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings.csv").write_text(READINGS)
    return tmp_path


@pytest.fixture
def penstock(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Run the command with arguments; what it is told on standard input is a script."""

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["penstock", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            main()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def script(penstock: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Run a script over the readings."""
    return lambda sql, *arguments: penstock("run", "-", *arguments, stdin=STREAM + sql)


@pytest.fixture
def process(here: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command in a process of its own, which ends with the test at the latest."""

    def start(*arguments: str, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with heard():
            started = subprocess.Popen(
                [*before, sys.executable, "-m", "penstock.cli.main", *arguments],
                cwd=here,
                env={
                    **{key: os.environ[key] for key in ("PATH", "JAVA_HOME") if key in os.environ},
                    "PYTHONPATH": str(ROOT),
                    "PYTHONIOENCODING": "utf-8",
                    "PENSTOCK_ENGINE": "local",
                },
                text=True,
                encoding="utf-8",
                **{**pipes, **options},
            )
        ending.enter_context(ended_in_time(started))
        return started

    with ExitStack() as ending:
        yield start
