"""`--allow`: what a script may read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Outcome


def test_files(penstock: Callable[..., Outcome], here: Path) -> None:
    (here / "data").mkdir()
    (here / "data" / "a.csv").write_text("x\n1\n")
    script = "CREATE STREAM s (x INT) FROM FILES 'data/a.csv'; SELECT x FROM s;"
    command = ["run", "-", "--engine", "local", "--format", "csv", "--allow"]
    assert penstock(*command, "data", stdin=script).out == "x\n1\n"
    assert penstock(*command, "other", "--allow", "data", stdin=script).out == "x\n1\n"
    for other in ("other", ""):
        refused = penstock(*command, other, stdin=script)
        assert refused.code == 1
        assert "'data/a.csv' is not allowed here" in refused.err
