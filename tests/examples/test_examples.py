"""Runs every file of examples/ as its reader would, and compares what it prints with the comment
at its end.

Run as a program, this file writes those comments anew.  Read the difference before you believe it.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
ON_SPARK = ["spark_files.py"]
EXAMPLES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in {".py", ".sql"})
MARK = "prints:\n"


def expected(name: str) -> str:
    """The lines of the comment behind the mark."""
    sign = comment_sign(name)
    text = (FOLDER / name).read_text(encoding="utf-8")
    lines = text.rpartition(f"\n{sign} {MARK}")[2].splitlines()
    assert all(line == sign or line.startswith(f"{sign} ") for line in lines)
    return "".join(f"{line[len(sign) + 1 :]}\n" for line in lines)


def comment_sign(name: str) -> str:
    return "#" if name.endswith(".py") else "--"


def printed(name: str) -> str:
    command = ["run", "--engine", "local"] if name.endswith(".sql") else []
    module = ["-m", "penstock"] if command else ["-W", "error"]
    done = subprocess.run(
        [sys.executable, *module, *command, str(FOLDER / name)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return without_trailing_blanks(done.stdout)


def without_trailing_blanks(text: str) -> str:
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ON_SPARK])
def test_an_example(name: str) -> None:
    assert printed(name) == expected(name)


@pytest.mark.parametrize("name", ON_SPARK)
def test_an_example_on_spark(name: str, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In the session of the tests, which it finds as it would find any that is there."""
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert without_trailing_blanks(capsys.readouterr().out) == expected(name)


def test_all_are_listed() -> None:
    listed = re.findall(r"\]\((\w+\.\w+)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == EXAMPLES


def rewrite(name: str) -> None:
    sign = comment_sign(name)
    path = FOLDER / name
    head, mark, _ = path.read_text(encoding="utf-8").rpartition(f"\n{sign} {MARK}")
    lines = (f"{sign} {line}".rstrip() + "\n" for line in printed(name).splitlines())
    path.write_text(head + mark + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for each in EXAMPLES:
        rewrite(each)
