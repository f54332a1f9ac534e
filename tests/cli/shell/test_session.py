"""What the shell does without a prompt: commands that are given, or said on standard input."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.shell.session import ShellSession
from penstock.cli.shell.shell import _parts_of_script
from penstock.sql.keywords import is_complete, statements_of, words
from tests.cli.conftest import ROOT, STREAM, Outcome
from tests.waiting import LONGEST, wait_for

COUNT = (
    "CREATE QUERY counts AS SELECT count(*) AS n [RANGE 1 MINUTE, SLIDE 1 MINUTE, WA ts] FROM s;"
)


@pytest.fixture
def shell(here: Path, penstock: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Carry out some commands, one after the other, beside a stream that is there."""
    (here / "s.sql").write_text(STREAM)

    def run(*commands: str) -> Outcome:
        return penstock("shell", "s.sql", *(each for it in commands for each in ("-c", it)))

    return run


def test_queries_are_created_waited_for_and_dropped(shell: Callable[..., Outcome]) -> None:
    code, out, err = shell(COUNT, "\\wait counts", "SHOW QUERIES;", "DROP QUERY counts;")
    assert code == 0, err
    assert re.search(r"^counts +ended +5 +1 +2 +2 ", out, re.MULTILINE)


def test_a_select_writes_its_rows_and_what_was_left_out(shell: Callable[..., Outcome]) -> None:
    code, out, err = shell("SELECT k, v FROM s WHERE v < 3;")
    assert (code, out) == (0, "k  v\n─  ─\na  1\n(1 row)\n")
    assert "2 rows rejected" in err


def test_plans_streams_and_operators(shell: Callable[..., Outcome]) -> None:
    out = shell("EXPLAIN SELECT k FROM s;", "SHOW STREAMS;", "\\top", "\\help").out
    assert "└─ Scan s" in out
    assert "readings.csv" in out
    assert "operator" in out
    assert "\\watch NAME" in out


@pytest.mark.parametrize("ending", [["-c", "\\finish"], ["--final"]], ids=str)
def test_what_is_open_is_given_out_at_the_end(
    shell: Callable[..., Outcome], penstock: Callable[..., Outcome], ending: list[str]
) -> None:
    kept = ("-c", COUNT, "-c", "\\wait", "-c", "SHOW QUERIES;")
    code, out, err = penstock("shell", "s.sql", "--checkpoint", "kept", *kept)
    assert code == 0, err
    assert re.search(r"^counts +caught up +5 +1 +2 +1 +1 ", out, re.MULTILINE), "one is open"
    watched = ("-c", "\\watch counts", "-c", "\\wait")
    code, out, err = penstock("shell", "--checkpoint", "kept", *watched, *ending)
    assert code == 0, err
    assert re.findall(r"n \d", out) == ["n 1"], "the second window"
    out = penstock("shell", "--checkpoint", "kept", "-c", "\\wait", "-c", "SHOW QUERIES;").out
    assert re.search(r"^counts +caught up +5 +1 +2 +2 +0 ", out, re.MULTILINE)


def test_how_a_running_query_is_worked_on(
    shell: Callable[..., Outcome], penstock: Callable[..., Outcome]
) -> None:
    said = (COUNT, "ALTER QUERY counts SET STRATEGY 'bfs 7';", "\\schedule counts", "\\schedule")
    commands = [each for it in said for each in ("-c", it)]
    code, out, err = penstock("shell", "s.sql", "--checkpoint", "kept", *commands)
    assert code == 0, err
    assert out.count("BFS-NOS, k = 7") == 2, "of the query, and of all"
    shown = shell("\\schedule").out
    assert shown.split() == ["state", "pred", "succ", "transition"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("SELECT x FROM s;", "unknown column"),
        ("\\wach counts", "try: \\watch"),
        ("\\foo", "try: \\help"),
        ("\\watch", "\\watch of what?\n  expected: \\watch and the name of a query"),
        ("\\stall ;", "\\stall of what?"),
        ("\\read", "\\read of what?\n  expected: \\read and the name of a file"),
        ("\\read nowhere.sql", "cannot read nowhere.sql: No such file or directory"),
        ("\\watch counts", "no query called 'counts' is running"),
        ("\\unwatch counts", "counts is not watched"),
        ("\\stall counts", "no query called 'counts' is running"),
        ("SELECT 'a", "not terminated"),
    ],
)
def test_mistakes_are_said(shell: Callable[..., Outcome], command: str, said: str) -> None:
    code, _, err = shell(command, "SHOW QUERIES;")
    assert code == 1
    assert said in err


def test_what_follows_a_mistake_is_carried_out(shell: Callable[..., Outcome]) -> None:
    assert "(1 row)" in shell("\\nonsense", "SELECT k FROM s WHERE v = 1;").out


def test_a_mistake_in_the_first_script_ends_the_shell(
    here: Path, penstock: Callable[..., Outcome]
) -> None:
    (here / "bad.sql").write_text("SELECT x FROM nothing;")
    code, out, err = penstock("shell", "bad.sql", "-c", "\\help")
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no stream")


def test_standard_input_is_a_script_with_commands(here: Path) -> None:
    said = f"{STREAM}\n{COUNT}\n\\wait\nSHOW\nQUERIES;\n\\quit\nSHOW STREAMS;\n"
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "shell"],
        input=said,
        capture_output=True,
        text=True,
        cwd=here,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        check=True,
        timeout=LONGEST,
    )
    assert "counts  ended" in ran.stdout
    assert "readings.csv" not in ran.stdout, "it has left before"


def said_to_shell(here: Path, said: str, *arguments: str) -> Outcome:
    """On standard input."""
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "shell", *arguments],
        input=said,
        capture_output=True,
        text=True,
        cwd=here,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        check=False,
        timeout=LONGEST,
    )
    return Outcome(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("mistake", ["SELECT nothing FROM s;", "\\nonsense", "\\read nowhere.sql"])
def test_a_script_on_standard_input_ends_at_its_first_error(here: Path, mistake: str) -> None:
    """Statements behind it, and commands, were written for what did not happen."""
    after = "SELECT k FROM s WHERE v = 1;\n\\streams\nSHOW STREAMS;\n"
    code, out, err = said_to_shell(here, f"{STREAM}\nSELECT 7 AS n FROM s;\n{mistake}\n{after}")
    assert code == 1
    assert err.count("error: ") == 1
    assert out.startswith("n\n")
    assert "readings.csv" not in out
    assert "k\n" not in out


def test_nothing_on_standard_input(here: Path) -> None:
    assert said_to_shell(here, "") == (0, "", "")


@pytest.mark.parametrize("word", ["quit", "exit", "QUIT;", "\\q", "\\quit;", "-- enough\nexit"])
def test_the_words_that_leave_other_shells(here: Path, word: str) -> None:
    code, out, err = said_to_shell(here, f"{STREAM}\n{word}\nSHOW STREAMS;\n")
    assert (code, out, err) == (0, "", "")


def test_what_other_shells_know(shell: Callable[..., Outcome]) -> None:
    code, out, err = shell("help", "\\?", "\\d", "\\dt", "\\d s;", "DESCRIBE s; DESC s;")
    assert code == 0, err
    assert out.count("SQL ends with a semicolon") == 2
    assert out.count("readings.csv") == 2
    assert len(re.findall(r"^ts +TIMESTAMP +ORDERED", out, re.MULTILINE)) == 3


def test_a_word_in_a_statement_is_no_command() -> None:
    text = "SELECT quit\nFROM s\nWHERE k = '\n\\q\nquit\n';\n/*\n\\q\n*/\nexit"
    *_, last = pieces = _parts_of_script(text)
    assert (len(pieces), last) == (2, "exit")


def test_a_script_is_read_where_sql_may_read(here: Path, penstock: Callable[..., Outcome]) -> None:
    """What is not allowed is not told apart from what is not there."""
    (here / "mine").mkdir()
    for place in (here / "mine" / "own script.sql", here / "secret.sql"):
        place.write_text("SHOW STREAMS;")
    allow = ("--allow", "mine")
    assert penstock("shell", *allow, "-c", "\\read 'mine/own script.sql'").code == 0
    refused = [
        penstock("shell", *allow, "-c", f"\\read {name}")
        for name in ("secret.sql", "mine/../secret.sql", "nowhere.sql")
    ]
    (here / "mine" / "link.sql").symlink_to(here / "secret.sql")
    refused.append(penstock("shell", *allow, "-c", "\\i mine/link.sql"))
    refused.append(penstock("shell", "--allow", "", "-c", "\\read mine/link.sql"))
    for code, out, err in refused:
        assert (code, out) == (1, "")
        assert "is not allowed here" in err


def test_rows_that_came_too_fast_are_told_of() -> None:
    """Nobody takes rows of a query that is paused, so all but the last ones are dropped."""
    paused = threading.Event()

    async def rows() -> AsyncIterator[dict[str, int]]:
        while not paused.is_set():
            await asyncio.sleep(0.001)
        for v in range(100):
            yield {"v": v}
            await asyncio.sleep(0.001)

    db, out, err = ps.connect(), io.StringIO(), io.StringIO()
    db.stream("s", rows(), schema="v INT")
    with db.live(overload="drop-oldest 5") as live:
        session = ShellSession(db, live, out, err)
        assert session.carry_out("CREATE QUERY q AS SELECT v FROM s; ALTER QUERY q SET PAUSED TRUE")
        paused.set()
        wait_for(lambda: live.graph_status().dropped.get("s", 0) >= 90)
        assert session.carry_out("\\streams")
        assert session.carry_out("\\top")
        session.tell_dropped()
    told = re.compile(r"s: \d\d rows dropped, because they came too fast\n")
    assert len(told.findall(out.getvalue())) == 2
    assert told.findall(err.getvalue())


def test_what_happens_to_rows_that_come_too_fast_is_one_of_two_things(
    penstock: Callable[..., Outcome],
) -> None:
    assert penstock("shell", "--overload", "drop-oldest 10", "-c", "SHOW QUERIES;").code == 0
    wrong = penstock("shell", "--overload", "drop-newest", "-c", "SHOW QUERIES;")
    assert wrong.code == 1
    assert "'drop-newest' does not say what happens when rows come too fast" in wrong.err


def test_lines_that_begin_with_a_backslash_are_commands() -> None:
    assert _parts_of_script("SELECT\n1;\n\\top\n\n\\quit") == ["SELECT\n1;", "\\top", "\\quit"]


def test_statements_stand_by_themselves() -> None:
    assert statements_of("SELECT ';'; -- ;\nSELECT 2;;") == ["SELECT ';';", "-- ;\nSELECT 2;"]
    assert statements_of("SELECT 'a") == ["SELECT 'a"]
    assert not is_complete("/* ;")


def test_the_words_are_those_of_the_reference() -> None:
    """Every word in capitals of the grammar is known, so that it can be completed."""
    pages = (path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "sql").glob("*.md"))
    grammar = "\n".join(re.findall(r"```ebnf\n(.*?)```", "\n".join(pages), re.DOTALL))
    spoken = set(re.findall(r"\b[A-Z]{3,}\b", grammar))
    assert len(spoken) > 40
    names = {
        "CSV",
        "JSON",
        "PARQUET",
        "BREAKS",
        "ETS",
        "PAUSED",
        "SHARE",
        "STRATEGY",
    }  # formats, settings
    assert spoken - set(words()) == names | {"FALSE"}  # a value; UNNEST is joined ON TRUE


def test_a_prompt_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.cli.shell.prompt import converse

    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    database = ps.connect()
    with database.live() as live:
        session = ShellSession(database, live, sys.stdout, sys.stderr)
        with pytest.raises(ps.PenstockError, match="prompt_toolkit, which is not installed"):
            converse(session)
