"""Ctrl-C in the middle of a run: what has been released is written, and nothing looks complete."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.cli.stopping import STOPPING, EndingError, interrupted_by_signals, orders_kept
from tests.waiting import LONGEST, wait_for

Process = Callable[..., "subprocess.Popen[str]"]

STREAM = "CREATE STREAM s (k STRING, t INT) FROM FILES 'many.csv' PROGRESS ON t ORDERED;\n"
MESSAGE = re.compile(r"stopped: ([\d,]+) rows? read, ([\d,]+) rows? written to (.+)\n")
MANY = 600_000


@pytest.fixture
def many(here: Path) -> int:
    """A file that takes a while."""
    lines = "".join(f"some text,{t}\n" for t in range(MANY))
    (here / "many.csv").write_text("k,t\n" + lines)
    return MANY


def numbers(message: str) -> tuple[int, int, str]:
    found = MESSAGE.fullmatch(message)
    assert found is not None, message
    return int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3]


def rest(started: subprocess.Popen[str]) -> tuple[str, str]:
    """What has not been read yet, of standard output and standard error."""
    with started:
        assert started.stdout is not None
        assert started.stderr is not None
        return started.stdout.read(), started.stderr.read()


def has_begun(folder: Path) -> bool:
    """Whether something has been written to the file without a name that becomes the result."""
    sizes = []
    for each in folder.glob(".result.jsonl.*"):
        with suppress(FileNotFoundError):
            sizes.append(each.stat().st_size)
    return any(sizes)


def test_to_a_pipe(process: Process, here: Path, many: int) -> None:
    (here / "script.sql").write_text(STREAM + "SELECT k, t FROM s")
    started = process("run", "script.sql", "--format", "jsonl")
    assert started.stdout is not None
    first = started.stdout.readline()
    started.send_signal(signal.SIGINT)  # it cannot have come far: nobody has read on
    out, err = rest(started)
    assert started.returncode == 130
    read, written, place = numbers(err)
    assert place == "standard output"
    rows = [json.loads(line) for line in (first + out).splitlines()]
    assert len(rows) == written == read < many
    assert rows[-1]["t"] == written - 1


def test_to_a_file(process: Process, here: Path, many: int) -> None:
    (here / "result.jsonl").write_text("old\n")
    (here / "script.sql").write_text(STREAM + "SELECT k, t FROM s")
    before = sorted(each.name for each in here.iterdir())
    started = process("run", "script.sql", "--format", "jsonl", "--output", "result.jsonl")
    wait_for(lambda: has_begun(here), started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate()
    assert (started.returncode, out) == (130, "")
    read, written, place = numbers(err)
    assert place == "result.jsonl.partial"
    assert 0 < written == read < many
    rows = [json.loads(line) for line in (here / place).read_text().splitlines()]
    assert [row["t"] for row in rows] == list(range(written))
    assert (here / "result.jsonl").read_text() == "old\n"
    assert sorted(each.name for each in here.iterdir()) == sorted([*before, place])


def test_a_window_that_is_open_is_not_written(process: Process, here: Path, many: int) -> None:
    count = "SELECT count(*) AS n [RANGE 100, SLIDE 100, WA t] FROM s;\n"
    (here / "script.sql").write_text(STREAM + count + "SELECT k, t FROM s")
    started = process("run", "script.sql", "--format", "jsonl", "--output", "result.jsonl")
    # the second result waits in a file without a name
    wait_for(lambda: has_begun(here), started)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate()
    assert started.returncode == 130
    read, written, place = numbers(err)
    rows = [json.loads(line) for line in (here / place).read_text().splitlines()]
    counts = [row["n"] for row in rows if "n" in row]
    assert counts == [100] * len(counts)
    assert written == len(rows) == len(counts) + read
    assert read - 100 <= 100 * len(counts) <= read < many


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(LONGEST)
        yield made


def test_while_it_waits_for_a_socket(
    process: Process, here: Path, listening: socket.socket
) -> None:
    port = listening.getsockname()[1]
    (here / "script.sql").write_text(
        f"CREATE STREAM s (t INT) FROM SOCKET '127.0.0.1:{port}'; SELECT t FROM s"
    )
    started = process("run", "script.sql")
    assert started.stdout is not None
    connection, _ = listening.accept()
    with connection:
        connection.sendall(b'{"t": 1}\n{"t": 2}\n')
        header = [started.stdout.readline() for _ in range(4)]  # shown at once
        started.send_signal(signal.SIGINT)
        out, err = rest(started)
    assert started.returncode == 130
    assert [line.strip() for line in header] == ["t", "─", "1", "2"]
    assert out == "(2 rows)\n"
    assert err == "stopped: 2 rows read, 2 rows written to standard output\n"


@pytest.mark.slow
def test_on_spark_and_twice(process: Process, here: Path) -> None:
    """Queries that do not end run side by side; on a pipe, the results of the second one wait for
    those of the first.  The main thread waits for Java when interrupts come, both at once."""
    window = "[RANGE 10, SLIDE 10, WA t] FROM s;"
    (here / "script.sql").write_text(
        "CREATE STREAM s (t INT) FROM VALUES (1), (30) PROGRESS ON t ORDERED;"
        f" SELECT count(*) AS n {window} SELECT max(t) AS n {window}"
    )
    options = ("--engine", "spark", "--trigger", "1 second", "--master", "local[2]")
    started = process("run", "script.sql", "--format", "jsonl", *options)
    assert started.stdout is not None
    first = started.stdout.readline()
    started.send_signal(signal.SIGINT)
    started.send_signal(signal.SIGINT)
    out, err = rest(started)
    assert started.returncode == 130
    assert json.loads(first) == {"window_start": 0, "window_end": 10, "n": 1}
    assert out in ("", first)
    first_line, _, last = err.partition("\n")
    assert first_line == STOPPING
    read, written, _ = numbers(last)
    assert read in (2, 4)
    assert written == 1 + bool(out)


def children_of(pid: int) -> list[Path]:
    """The processes that any thread of one has started."""
    by_thread = Path(f"/proc/{pid}/task").glob("*/children")
    return [Path("/proc") / each for text in by_thread for each in text.read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seconds", [0, 1, 2])
def test_while_spark_starts(
    process: Process, here: Path, number: signal.Signals, code: int, seconds: int
) -> None:
    (here / "script.sql").write_text("CREATE STREAM s (t INT) FROM VALUES (1); SELECT t FROM s")
    started = process("run", "script.sql", "--engine", "spark", "--master", "local[2]")
    wait_for(lambda: children_of(started.pid), started)
    java = children_of(started.pid)
    time.sleep(seconds)
    started.send_signal(number)
    _, err = started.communicate()
    assert started.returncode == code
    *before, last = err.splitlines()
    assert last.startswith("stopped")
    assert before in ([], [STOPPING])  # that it had already started is a matter of the machine
    wait_for(lambda: not any(each.exists() for each in java))


class _Tidied:
    """Whatever is raised while it is thrown away is lost."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_an_order_to_end_is_not_lost_while_python_tidies_up() -> None:
    told: list[str] = []

    def tidy_up() -> None:
        with orders_kept(lambda: told.append("told")):
            _Tidied()
            told.append("went on")

    with interrupted_by_signals() as stopped, pytest.raises(EndingError):
        tidy_up()
    assert told == ["told", "went on"]
    assert stopped.number == signal.SIGTERM
