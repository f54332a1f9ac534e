"""The command in a process of its own: pipes that close, signals, and devices that are full."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.cli import main as command
from tests.waiting import wait_for

Process = Callable[..., "subprocess.Popen[str]"]

SCRIPT = """\
CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) FROM FILES 'readings.csv' PROGRESS ON ts ORDERED;
SELECT k, v FROM s;
"""


@pytest.fixture(autouse=True)
def script(here: Path) -> None:
    (here / "script.sql").write_text(SCRIPT)


def test_rows_alone_on_standard_output(process: Process) -> None:
    started = process("run", "script.sql", "--format", "jsonl")
    out, err = started.communicate()
    assert started.returncode == 0
    assert out == '{"k": "a", "v": 1}\n{"k": null, "v": 3}\n{"k": "d", "v": null}\n'
    assert err.startswith("2 rows kept aside:\n")
    assert "\x1b" not in err  # no colours into a file


def test_a_script_from_standard_input(process: Process) -> None:
    started = process("run", "-", "--format", "csv", stdin=subprocess.PIPE)
    out, _ = started.communicate(SCRIPT)
    assert (started.returncode, out) == (0, "k,v\na,1\n,3\nd,\n")


def test_an_error_is_a_message(process: Process) -> None:
    started = process("run", "-", stdin=subprocess.PIPE)
    out, err = started.communicate("SELECT k FROM nobody")
    assert (started.returncode, out) == (1, "")
    assert err.splitlines()[0] == "error: there is no stream, table, view or query called 'nobody'"
    assert "Traceback" not in err


def test_demo_works_anywhere(process: Process) -> None:
    started = process("demo", "--engine", "local")
    out, err = started.communicate()
    assert started.returncode == 0
    assert "window_start" in out
    assert "Traceback" not in err


def test_a_reader_who_has_had_enough(process: Process, here: Path) -> None:
    """As in `penstock run … | head -1`: more rows than fit into a pipe, and nobody reads on."""
    cell = "x" * 200
    (here / "readings.csv").write_text("k,v,ts\n" + f"{cell},1,2026-01-31\n" * 3_000)
    started = process("run", "script.sql", "--format", "jsonl")
    assert started.stdout is not None
    assert started.stderr is not None
    assert started.stdout.readline() != ""
    started.stdout.close()
    assert started.stderr.read() == ""
    started.stderr.close()
    assert started.wait() >= 0  # it ended by itself


def interrupt(
    started: subprocess.Popen[str], pipe: Path, number: signal.Signals = signal.SIGINT
) -> tuple[str, str]:
    """Send a signal as soon as the command has opened the pipe, and hang up when it has noticed."""
    opened: list[int] = []

    def has_reader() -> bool:
        with suppress(OSError):
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    wait_for(has_reader, started)
    started.send_signal(number)
    with suppress(subprocess.TimeoutExpired):
        started.wait(0.5)
    os.close(opened[0])
    return started.communicate()


def test_interrupted_while_it_waits_for_its_script(process: Process, here: Path) -> None:
    (here / "script.sql").unlink()
    os.mkfifo(here / "script.sql")
    before = sorted(here.iterdir())
    started = process("run", "script.sql", "--output", "result")
    out, err = interrupt(started, here / "script.sql")
    assert (started.returncode, out, err) == (130, "", "stopped\n")
    assert sorted(here.iterdir()) == before


def test_interrupted_while_it_waits_for_its_data(process: Process, here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        source = f"SOCKET '127.0.0.1:{port}'"
        (here / "script.sql").write_text(SCRIPT.replace("FILES 'readings.csv'", source))
        before = sorted(here.iterdir())
        started = process("run", "script.sql", "--output", "result")
        listening.settimeout(60)
        connection, _ = listening.accept()
        with connection:
            started.send_signal(signal.SIGINT)
            out, err = started.communicate()
    said = "stopped: 0 rows read, 0 rows written\n"
    assert (started.returncode, out, err) == (130, "", said)
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_order_to_end_before_anything_runs(
    process: Process, here: Path, number: signal.Signals, code: int
) -> None:
    (here / "script.sql").unlink()
    os.mkfifo(here / "script.sql")
    started = process("run", "script.sql")
    out, err = interrupt(started, here / "script.sql", number)
    assert (started.returncode, out, err) == (code, "", "stopped\n")


def test_interrupted_before_typer_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "app", app)
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 130
    assert capsys.readouterr() == ("", "stopped\n")


@pytest.mark.parametrize("rows", [1, 3_000], ids=["few", "many"])
def test_a_full_device(process: Process, here: Path, rows: int) -> None:
    """Few rows fail when they are flushed, many while they are written."""
    (here / "readings.csv").write_text("k,v,ts\n" + "a,1,2026-01-31\n" * rows)
    with Path("/dev/full").open("w") as full:
        started = process("run", "script.sql", stdout=full)
        _, err = started.communicate()
    assert started.returncode == 1
    assert err == "error: cannot write to standard output: No space left on device\n"
