"""`penstock explain` and `penstock demo`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
STREAM = "CREATE STREAM s (a INT) FROM FILES 'nowhere.csv' PROGRESS ON a ORDERED;"


def test_explain_every_query_and_run_none(penstock: Run) -> None:
    text = STREAM + "SELECT a FROM s; EXPLAIN SELECT a + 1 AS b FROM s; CREATE QUERY q AS"
    outcome = penstock("explain", "-", stdin=text + " SELECT a + 2 AS c FROM s")
    assert (outcome.code, outcome.err) == (0, "")
    plans = outcome.out.split("Query LATE DROP\n")
    assert len(plans) == 4
    assert plans[0] == ""
    for plan, column in zip(plans[1:], ("a INT", "b BIGINT", "c BIGINT"), strict=True):
        assert plan.startswith(f"│  schema: {column}\n")
        assert "source: FILES 'nowhere.csv' FORMAT CSV" in plan
    assert plans[2].endswith("\n-- q\n")


def test_explain_a_file(penstock: Run, here: Path) -> None:
    (here / "script.sql").write_text(STREAM + "SELECT a FROM s")
    assert penstock("explain", "script.sql").out.startswith("Query LATE DROP\n")


@pytest.mark.parametrize("text", ["", STREAM])
def test_explain_without_queries(penstock: Run, text: str) -> None:
    assert penstock("explain", "-", stdin=text) == (0, "", "")


def test_explain_points_at_mistakes(penstock: Run) -> None:
    outcome = penstock("explain", "-", stdin=STREAM + "\nSELECT b FROM s")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.splitlines()[:4] == [
        "error: unknown column 'b'",
        "  at line 2, column 8:",
        "  2 | SELECT b FROM s",
        "             ^",
    ]


def test_demo(penstock: Run, here: Path) -> None:
    before = list(here.iterdir())
    outcome = penstock("demo", "--engine", "local")
    assert outcome.code == 0
    assert "CREATE STREAM packets" in outcome.out
    lines = outcome.out.splitlines()
    (header,) = [line for line in lines if line.split() == DEMO_COLUMNS]
    at = lines.index(header)
    rows = [line.split() for line in lines[at + 2 : lines.index("", at) - 1]]
    assert lines[lines.index("", at) - 1] == f"({len(rows)} rows)"
    # in order, and every group once per window
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert len({(row[0], row[2]) for row in rows}) == len(rows) > 10
    assert "2 late tuples among 53 rows, kept aside" in outcome.err
    assert "1 row kept aside" in outcome.err
    assert list(here.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("run", "FILE"), ("top", "FILE"), ("shell", "[FILE]"), ("reproduce", "NAME")],
)
def test_usage(penstock: Run, command: str, arguments: str) -> None:
    assert f"penstock {command} [OPTIONS] {arguments} " in penstock(command, "--help").out


DEMO_COLUMNS = ["window_start", "window_end", "srcIP", "packets", "bytes"]


def test_help(penstock: Run) -> None:
    for arguments in (["--help"], ["run", "--help"], ["explain", "--help"], ["demo", "--help"]):
        outcome = penstock(*arguments)
        assert outcome.code == 0
        assert "Usage:" in outcome.out
