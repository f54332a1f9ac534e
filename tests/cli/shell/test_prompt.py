"""The shell as somebody at a terminal sees it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell.terminal import CTRL_C, CTRL_D, PROMPT, TAB, UP, Terminal
from tests.waiting import LONGEST

pytest.importorskip("prompt_toolkit")

SENSORS = """\
CREATE STREAM sensors (room STRING, degrees INT, t INT)
FROM VALUES ('kitchen', 20, 1), ('attic', 9, 2), ('kitchen', 21, 12)
PROGRESS ON t ORDERED;
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "sensors.sql").write_text(SENSORS)
    return tmp_path


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(LONGEST)
        yield listening


def test_lines_completion_and_history(place: Path) -> None:
    with Terminal(place, "sensors.sql") as shell:
        shell.say("SELECT room, degrees")
        shell.see("...>")
        shell.type(f"FROM sen{TAB}")
        shell.see("sensors")
        shell.say(" WHERE degrees < 10;")
        shell.see("(1 row)")
        shell.see(PROMPT)
        shell.say("SELECT colour FROM sensors;")
        shell.see("error: ")
        shell.see("colour")
        shell.see(PROMPT)
        shell.say("\\help")
        shell.see("carry out a script")
        shell.see(PROMPT)
        shell.type(CTRL_D)
        assert shell.leaves() == 0
    with Terminal(place, "sensors.sql") as shell:
        shell.type(UP + UP + UP)
        shell.see("WHERE degrees < 10;")
        shell.type("\r")
        shell.see("attic")
        shell.see("(1 row)")
        shell.see(PROMPT)
        shell.say("\\quit")
        assert shell.leaves() == 0


def test_queries_come_and_go_while_rows_come(place: Path, server: socket.socket) -> None:
    host, port = server.getsockname()
    with Terminal(place) as shell:
        shell.say(
            f"CREATE STREAM live (k STRING, t INT) FROM SOCKET '{host}:{port}'"
            " PROGRESS ON t ORDERED;"
        )
        shell.see("created")
        shell.see(PROMPT)  # what is typed before that may be lost
        shell.say("CREATE QUERY counts AS SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t]")
        shell.say("FROM live GROUP BY k;")
        speaking, _ = server.accept()
        with speaking:
            shell.see("created")
            shell.say("\\watch counts")
            shell.see("rows of counts are shown as they come")
            speaking.sendall(b'{"k": "a", "t": 1}\n{"k": "a", "t": 2}\n{"k": "b", "t": 11}\n')
            shell.see("counts │ window_start 0, window_end 10, k a, n 2")
            shell.see(PROMPT)  # which stands below it again
            shell.say("ALTER QUERY counts SET STRATEGY 'bfs';")
            shell.see("altered")
            shell.see(PROMPT)
            shell.say("SHOW QUERIES;")
            shell.see("running")
            shell.see(PROMPT)
            shell.say("\\stall counts")
            shell.see("windows that end after 11 are open")
            shell.see(PROMPT)
            shell.say("SELECT k, t FROM live;")
            shell.see_after(lambda: speaking.sendall(b'{"k": "zebra", "t": 12}\n'), "zebra")
            shell.type(CTRL_C)
            shell.see("stopped")
            shell.see(PROMPT)
            shell.say("\\top")
            shell.see("counts")
            shell.see("rows/s")
            shell.type(CTRL_C)
            shell.see(PROMPT)
            shell.say("DROP QUERY counts;")
            shell.see("dropped")
            shell.see(PROMPT)
            shell.say("SHOW QUERIES;")
            shell.see("(0 rows)")
            shell.see(PROMPT)
            shell.type(CTRL_D)
            assert shell.leaves() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_is_no_interrupt(place: Path, number: signal.Signals) -> None:
    with Terminal(place, "sensors.sql", "--checkpoint", "kept") as shell:
        shell.say("CREATE QUERY warm AS SELECT room FROM sensors WHERE degrees > 10;")
        shell.see("created")
        shell.see(PROMPT)
        shell.process.send_signal(number)
        shell.see("stopped")
        assert shell.leaves() == 128 + number
    with Terminal(place, "--checkpoint", "kept") as shell:
        shell.say("SHOW QUERIES;")
        shell.see("warm")
        shell.see(PROMPT)
        shell.say("\\watch warm")
        shell.see(PROMPT)
        shell.say("\\finish")
        assert shell.leaves() == 0


def test_the_end_of_a_query_is_told(place: Path) -> None:
    with Terminal(place, "sensors.sql") as shell:
        shell.say("CREATE QUERY all AS SELECT room FROM sensors;")
        shell.see(PROMPT)
        shell.say("\\wait all")
        shell.see("query all has ended")
        shell.see(PROMPT)


def test_what_people_type_who_know_other_shells(place: Path) -> None:
    with Terminal(place, "sensors.sql") as shell:
        shell.say("help")
        shell.see("SQL ends with a semicolon")
        shell.see(PROMPT)
        shell.say("SHOW TABLES;")
        shell.see("sensors")
        shell.see("(1 row)")
        shell.see(PROMPT)
        shell.say("DESCRIBE sensors;")
        shell.see("ORDERED")
        shell.see(PROMPT)
        shell.say("\\d sensors")
        shell.see("ORDERED")
        shell.see(PROMPT)
        shell.say("exit")
        assert shell.leaves() == 0
