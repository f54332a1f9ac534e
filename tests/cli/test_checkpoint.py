"""`penstock run --checkpoint`, again and again, as a scheduler does it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for

STREAM = "CREATE STREAM s (k STRING, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 2;\n"
COUNTS = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s;\n"


@pytest.fixture
def again(penstock: Callable[..., Any], here: Path) -> Callable[..., Any]:
    """The same command once more."""
    (here / "data").mkdir()
    (here / "counts.sql").write_text(STREAM + COUNTS)

    def run(*options: str) -> Any:
        places = ("--checkpoint", "kept", "--output", "out.jsonl")
        return penstock("run", "counts.sql", "--engine", "local", *places, *options)

    return run


def put(here: Path, name: str, *times: int) -> None:
    (here / "data" / f"{name}.csv").write_text("k,t\n" + "".join(f"a,{t}\n" for t in times))


def ends(here: Path) -> list[int]:
    lines = (here / "out.jsonl").read_text().splitlines()
    return [json.loads(line)["window_end"] for line in lines]


def test_every_hour(again: Callable[..., Any], here: Path) -> None:
    put(here, "1", *range(25))
    assert again() == (
        0,
        "",
        "25 rows read, 25 by all runs; 1 window is still open; --final closes it\n",
    )
    assert ends(here) == [10, 20]
    put(here, "2", *range(25, 28), 61)
    assert again().err == (
        "4 rows read, 29 by all runs; 1 window is still open; --final closes it\n"
    )
    assert ends(here) == [10, 20, 30]
    assert again("--final").err == "0 rows read, 29 by all runs\n"
    assert ends(here) == [10, 20, 30, 70]
    put(here, "3", 65, 75)
    found = again()
    assert found.code == 0
    assert found.err == (
        "the checkpoint was closed by a final run: tuples of s below 71 are late\n"
        "1 late tuple among 2 rows, left out of the windows it missed\n"
        "2 rows read, 31 by all runs; 1 window is still open; --final closes it\n"
    )


def test_rows_and_groups_wait_where_there_are_no_windows(
    penstock: Callable[..., Any], here: Path
) -> None:
    (here / "data").mkdir()
    put(here, "1", *range(25))
    for number, (query, waiting) in enumerate(
        [
            ("SELECT t, sum(t) OVER (ORDER BY t) AS s FROM s", "rows"),
            ("SELECT t, count(*) AS n FROM s GROUP BY t", "groups"),
        ]
    ):
        (here / "counts.sql").write_text(STREAM + query)
        found = penstock(
            *("run", "counts.sql", "--engine", "local"),
            *("--checkpoint", f"kept{number}", "--output", f"rows{number}.jsonl"),
        )
        assert (
            f"25 rows read, 25 by all runs; 3 {waiting} still wait; --final gives them out"
            in found.err
        )


def test_another_query(again: Callable[..., Any], here: Path) -> None:
    put(here, "1", *range(25))
    again()
    (here / "counts.sql").write_text(STREAM + COUNTS.replace("SLIDE 10", "SLIDE 5"))
    found = again()
    assert found.code == 1
    assert "belongs to another query" in found.err
    assert ends(here) == [10, 20]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--checkpoint", "kept"), "standard output cannot be gone on with"),
        (("--checkpoint", "kept", "--output", "x.parquet"), "cannot be gone on with"),
        (("--final",), "--final closes what a checkpoint keeps open, and there is none"),
        (("--master", "local[2]"), "--master is for the spark engine, not for local"),
        (("--buckets", "3"), "--buckets is for the spark engine, not for local"),
        (("--trigger", "sometimes"), "'sometimes' is not a trigger"),
        (("--trigger", "0 seconds"), "'0 seconds' is not a trigger"),
        (("--trigger", "-1 seconds"), "'-1 seconds' is not a trigger"),
        (("--checkpoint", "counts.sql", "--output", "x"), "counts.sql is not a directory"),
        (("--checkpoint", "counts.sql/a/b", "--output", "x"), "counts.sql is not a directory"),
    ],
)
def test_what_cannot_be(
    penstock: Callable[..., Any], here: Path, options: tuple[str, ...], message: str
) -> None:
    (here / "data").mkdir()
    put(here, "1", 1)
    (here / "counts.sql").write_text(STREAM + COUNTS)
    found = penstock("run", "counts.sql", "--engine", "local", *options)
    assert found.code == 1
    assert message in found.err


def test_several_queries_go_to_directories(penstock: Callable[..., Any], here: Path) -> None:
    (here / "data").mkdir()
    put(here, "1", *range(25))
    (here / "two.sql").write_text(STREAM + COUNTS + COUNTS.replace("count(*)", "max(t)"))
    command = ("run", "two.sql", "--engine", "local", "--checkpoint", "kept", "--format", "jsonl")
    assert "a file holds the rows of one query" in penstock(*command, "--output", "x.jsonl").err
    assert penstock(*command, "--output", "results").code == 0
    for number, expected in ((0, [10, 10]), (1, [9, 19])):
        parts = (here / f"results/{number}").glob("part-*")
        lines = [line for part in parts for line in part.read_text().splitlines()]
        assert [json.loads(line)["n"] for line in lines] == expected


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_orders_to_end(
    process: Callable[..., subprocess.Popen[str]], here: Path, number: signal.Signals, code: int
) -> None:
    """A run that follows its files is stopped, and the same command goes on."""
    (here / "data").mkdir()
    put(here, "1", *range(25))
    (here / "counts.sql").write_text(STREAM + COUNTS)
    command = ("run", "counts.sql", "--checkpoint", "kept", "--output", "out.jsonl")
    started = process(*command, "--trigger", "50 milliseconds")
    wait_for(lambda: (here / "out.jsonl").exists() and len(ends(here)) == 2, started)
    started.send_signal(number)
    out, err = started.communicate()
    assert (started.returncode, out) == (code, "")
    assert err == ("stopped: 25 rows read, 2 rows written to out.jsonl; the same command goes on\n")
    put(here, "2", *range(25, 35))
    with process(*command) as later:
        assert later.wait() == 0
    assert ends(here) == [10, 20, 30]


def test_over_a_directory_that_is_still_empty(
    process: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    (here / "data").mkdir()
    (here / "counts.sql").write_text(STREAM + COUNTS)
    started = process(
        *("run", "counts.sql", "--checkpoint", "kept", "--output", "out.jsonl"),
        *("--trigger", "50 milliseconds"),
    )
    wait_for(lambda: (here / "kept" / "state.sqlite").exists(), started)
    put(here, "1", *range(25))
    wait_for(lambda: (here / "out.jsonl").exists() and len(ends(here)) == 2, started)
    started.send_signal(signal.SIGTERM)
    started.communicate()
    assert started.returncode == 143


def test_a_signal_that_is_to_be_ignored(
    process: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    """As nohup wants it: the terminal is gone, and the run goes on."""
    (here / "data").mkdir()
    put(here, "1", *range(25))
    (here / "counts.sql").write_text(STREAM + COUNTS)
    command = ("run", "counts.sql", "--checkpoint", "kept", "--output", "out.jsonl")
    started = process(*command, "--trigger", "50 milliseconds", before=["nohup"])
    wait_for(lambda: (here / "out.jsonl").exists() and len(ends(here)) == 2, started)
    started.send_signal(signal.SIGHUP)
    put(here, "2", *range(25, 35))
    wait_for(lambda: len(ends(here)) == 3, started)
    started.terminate()
    started.communicate()
    assert started.returncode == 143


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_orders_to_end_on_spark(
    process: Callable[..., subprocess.Popen[str]], here: Path, number: signal.Signals, code: int
) -> None:
    """To all processes of the terminal or service, while Java may be at work on new rows."""
    (here / "data").mkdir()
    put(here, "1", *range(25))
    (here / "counts.sql").write_text(STREAM + COUNTS)
    places = ("--checkpoint", "kept", "--output", "out.jsonl")
    command = ("run", "counts.sql", "--engine", "spark", "--master", "local[2]", *places)
    started = process(*command, "--trigger", "200 milliseconds", start_new_session=True)
    wait_for(lambda: (here / "out.jsonl").exists() and len(ends(here)) == 2, started)
    put(here, "2", *range(25, 45))
    time.sleep(0.3)
    os.killpg(started.pid, number)
    out, err = started.communicate()
    assert (started.returncode, out) == (code, "")
    rows = len(ends(here))
    read = 25 if rows == 2 else 45
    assert err == (
        f"stopped: {read} rows read, {rows} rows written to out.jsonl; the same command goes on\n"
    )
    with process(*command, "--final") as later:
        assert later.wait() == 0
    assert ends(here) == [10, 20, 30, 40, 50]
    counts = [json.loads(line)["n"] for line in (here / "out.jsonl").read_text().splitlines()]
    assert counts == [10, 10, 10, 10, 5]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_without_a_checkpoint_a_part_is_left(
    process: Callable[..., subprocess.Popen[str]], here: Path, number: signal.Signals, code: int
) -> None:
    (here / "data").mkdir()
    put(here, "1", *range(300_000))
    (here / "all.sql").write_text(STREAM + "SELECT k, t FROM s")
    started = process("run", "all.sql", "--output", "out.jsonl", "--format", "jsonl")
    wait_for(lambda: any(each.stat().st_size for each in here.glob(".out.jsonl.*")), started)
    started.send_signal(number)
    _, err = started.communicate()
    assert started.returncode == code
    assert "rows written to out.jsonl.partial" in err
    lines = (here / "out.jsonl.partial").read_text().splitlines()
    assert [json.loads(line)["t"] for line in lines] == list(range(len(lines)))
