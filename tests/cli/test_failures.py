"""What goes wrong is a message and a code, never a traceback, and leaves no half of a file."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli.main import main
from penstock.cli.shell.session import ShellSession

Run = Callable[..., Any]

# Scripts over the readings, and the first line of the error.
MISTAKES = {
    "SELEC k FROM s": "a statement begins with CREATE, SPLIT, ALTER, SHOW, DESCRIBE, DROP, WITH,"
    " SELECT or EXPLAIN, not 'SELEC'",
    "SELECT k FROM t": "there is no stream, table, view or query called 't'",
    "SELECT kk FROM s": "unknown column 'kk'",
    "SELECT 'k FROM s": "a string is not terminated",
    "SELECT k FROM s /* x": "a comment is not terminated",
    "SELECT k + 1 AS n FROM s": "STRING + INT has no meaning",
    "SELECT count(*) FROM s": "an aggregate over an endless stream never completes",
    "SELECT upper(v) FROM s": "argument 1 of upper is an INT",
    "SELECT count(*) AS n [RANGE TUMBLING 20000000 WEEKS] FROM s": "20000000 WEEKS is longer",
    "SELECT k FROM s ORDER BY k": "ORDER BY alone is not part of a continuous query",
    "CREATE STREAM s (a INT)": "'s' exists already",
    "CREATE STREAM x (a INT) FROM VALUES ('y')": "'y' is not an INT",
    "CREATE STREAM x (a INT) FROM VALUES (1, 2)": "the row has 2 values",
    "CREATE STREAM x (a INT) FROM FILES 'y' FORMAT XML": "'XML' is not a file format",
    "CREATE STREAM x (a FOO)": "expected a type for a, found 'FOO'",
    "CREATE STREAM x (a DECIMAL(99)) ": "DECIMAL precision 99 is outside 1..38",
    "SELECT DATE '2026-01-01' + 3000000000 AS d FROM s": "3000020454 is too large for DATE",
    "DROP STREAM x": "there is no stream called 'x'",
    "DROP INDEX s": "expected STREAM, TABLE, VIEW or QUERY after DROP, found 'INDEX'",
    "SELECT CAST(k AS INT) AS n FROM s": "'a' cannot be made an INT",
    "SELECT v * 9223372036854775807 * 2 AS n FROM s": "18446744073709551614 is too large",
    "SELECT k FROM s" + " WHERE (" * 99 + "TRUE" + ")" * 99: "parentheses are nested more than",
}


def failed(outcome: Any, message: str) -> bool:
    return (
        outcome.code == 1
        and outcome.out == ""
        and outcome.err.startswith(f"error: {message}")
        and "Traceback" not in outcome.err
    )


@pytest.mark.parametrize("sql", MISTAKES, ids=lambda sql: sql[:40])
def test_mistakes_in_a_script(script: Run, here: Path, sql: str) -> None:
    assert failed(script(sql), MISTAKES[sql])
    assert failed(script(sql, "--output", "result"), MISTAKES[sql])
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


@pytest.mark.parametrize("output_format", ["table", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("sql", ["SELECT k FROM", "SELECT CAST(k AS INT) AS n FROM s"])
def test_the_old_result_is_left_alone(
    script: Run, here: Path, sql: str, output_format: str
) -> None:
    (here / "result").write_text("old")
    assert script(sql, "--output", "result", "--format", output_format).code == 1
    assert (here / "result").read_text() == "old"
    assert sorted(each.name for each in here.iterdir()) == ["readings.csv", "result"]


@pytest.mark.parametrize("output_format", ["table", "jsonl", "csv"])
def test_a_mistake_in_the_second_select_leaves_no_file(
    script: Run, here: Path, output_format: str
) -> None:
    sql = "SELECT v FROM s; SELECT CAST(k AS INT) AS n FROM s"
    assert script(sql, "--output", "result", "--format", output_format).code == 1
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


@pytest.mark.parametrize("output_format", ["csv", "parquet"])
def test_several_results_in_a_format_of_one(script: Run, here: Path, output_format: str) -> None:
    outcome = script(
        "SELECT v FROM s; SELECT k FROM s", "--output", "result", "--format", output_format
    )
    assert failed(outcome, f"{output_format} holds one result, and the script has 2")
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


@pytest.mark.parametrize("sql", ["SELECT v = FROM s", "SELECT v FROM s WHERE k LIKE"])
def test_mistakes_are_not_told_in_the_words_of_a_library(script: Run, sql: str) -> None:
    outcome = script(sql)
    assert outcome.code == 1
    assert "sqlglot" not in outcome.err


# --- scripts, engines and arguments --------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "explain"])
def test_scripts_that_cannot_be_read(penstock: Run, here: Path, command: str) -> None:
    (here / "image.sql").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (here / "loop.sql").symlink_to("loop.sql")
    for file, message in (
        ("nowhere.sql", "cannot read nowhere.sql: No such file or directory"),
        (".", "cannot read .: Is a directory"),
        ("image.sql", "image.sql is not text in UTF-8"),
        ("loop.sql", "cannot read loop.sql: Too many levels of symbolic links"),
    ):
        assert failed(penstock(command, file), message)


@pytest.mark.parametrize("said", ["", "malloc of size 1000000000000 failed\nsomewhere"])
def test_memory_that_runs_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path, said: str
) -> None:
    """While a script runs, and in the shell."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError(said)

    detail = ": malloc of size 1000000000000 failed" if said else ""
    message = f"error: there is not enough memory{detail}\n  try: smaller values"
    (here / "script.sql").write_text("CREATE STREAM s (t INT) FROM VALUES (1); SELECT t FROM s")
    monkeypatch.setattr("penstock.api.execution.Running.drive", fail)
    monkeypatch.setattr(sys, "argv", ["penstock", "run", "--engine", "local", "script.sql"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    assert capsys.readouterr().err.startswith(message)
    monkeypatch.setattr("penstock.api.live.Live.sql", fail)
    err = io.StringIO()
    db = ps.connect()
    with db.live() as live:
        assert not ShellSession(db, live, io.StringIO(), err).carry_out("SELECT 1 FROM s")
    assert err.getvalue().startswith(message)


def test_a_script_from_a_standard_input_that_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "run", "-"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("error: ")


def test_java_is_missing(script: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    outcome = script("SELECT k FROM s", "--engine", "spark", "--output", "result")
    assert failed(outcome, "the spark engine needs Java 17 or newer")
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


@pytest.mark.parametrize("conf", ["", "spark.ui.enabled", "=x"])
def test_a_setting_of_spark_is_a_key_and_a_value(script: Run, conf: str) -> None:
    outcome = script("SELECT k FROM s", "--engine", "spark", "--conf", conf)
    assert failed(outcome, f"--conf {conf.rstrip('x=')}")


def test_an_engine_that_does_not_exist(script: Run) -> None:
    outcome = script("SELECT k FROM s", "--engine", "referense")
    assert failed(outcome, "there is no engine called 'referense'\n")
    assert outcome.err.splitlines()[1:] == [
        "  expected: one of spark, local, reference",
        "  try: reference",
    ]


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["walk"], ["run", "a", "b"], ["run", "-", "--format", "xml"], ["run", "--no", "-"]],
    ids=" ".join,
)
def test_arguments_that_do_not_exist(penstock: Run, arguments: list[str]) -> None:
    outcome = penstock(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("option", ["--output", "--late", "--rejected"])
def test_places_that_cannot_be_written(script: Run, here: Path, option: str) -> None:
    (here / "place").mkdir()
    directory = "cannot write place: Is a directory"
    if option == "--output":
        directory = "place is a directory, and without a checkpoint rows go to one file"
    nowhere = "cannot write no/where: No such file or directory"
    for path, reason in (("no/where", nowhere), ("place", directory)):
        outcome = script("SELECT k FROM s", option, path)
        assert outcome.code == 1
        assert outcome.err.startswith(f"error: {reason}\n")
        assert ("try: mkdir -p no\n" in outcome.err) is (path == "no/where")
    assert sorted(each.name for each in here.iterdir()) == ["place", "readings.csv"]


# --- data that is not what it seems --------------------------------------------------------------


def read(penstock: Run, file: str, *arguments: str) -> Any:
    sql = f"CREATE STREAM x (k STRING, v INT) FROM FILES '{file}'; SELECT k, v FROM x"
    return penstock("run", "-", "--format", "jsonl", *arguments, stdin=sql)


def test_files_that_are_something_else(penstock: Run, here: Path) -> None:
    (here / "text.parquet").write_text("k,v\na,1\n")
    (here / "nothing.parquet").touch()
    (here / "image.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (here / "semicolons.csv").write_text("k;v\na;1\n")
    (here / "wide.csv").write_text("k,v\na,1\n", encoding="utf-16")
    (here / "folder.csv").mkdir()
    (here / "loop.csv").symlink_to("loop.csv")
    for file, message in (
        ("text.parquet", "text.parquet is not a Parquet file"),
        ("nothing.parquet", "nothing.parquet is not a Parquet file"),
        ("image.csv", "image.csv is not a text file"),
        ("wide.csv", "wide.csv is not a text file"),
        ("semicolons.csv", "semicolons.csv: cells seem to be separated by ';': k;v"),
        ("folder.csv", "folder.csv is a directory"),
        (".", ". is a directory"),
        ("nowhere.csv", "no file matches 'nowhere.csv'"),
        ("", "no file matches ''"),
        ("readings", "no file matches 'readings'"),
    ):
        assert failed(read(penstock, file), message)
    assert read(penstock, "loop.csv").code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(penstock: Run, here: Path) -> None:
    (here / "secret.csv").write_text("k,v\na,1\n")
    (here / "secret.csv").chmod(0)
    assert failed(read(penstock, "secret.csv"), "secret.csv may not be read: permission denied")


@pytest.mark.parametrize("content", ["", "k,v\n", "k,v\n\n\n", "\n\nv,k\n"])
def test_files_without_rows(penstock: Run, here: Path, content: str) -> None:
    (here / "x.csv").write_text(content)
    assert read(penstock, "x.csv") == (0, "", "")


def test_one_row_with_a_huge_text(penstock: Run, here: Path) -> None:
    huge = "x" * 3_000_000
    (here / "x.csv").write_text(f"k,v\n{huge},1\n")
    assert read(penstock, "x.csv").out == f'{{"k": "{huge}", "v": 1}}\n'
    (here / "x.csv").write_text(f"k,v\na,{huge}\n")
    outcome = read(penstock, "x.csv", "--strict")
    assert outcome.code == 1
    assert len(outcome.err) < 1_000


def test_one_file_for_two_outputs(script: Run, here: Path) -> None:
    for more in ([], ["--checkpoint", "kept"]):
        found = script("SELECT k FROM s", "--output", "z.jsonl", "--late", "z.jsonl", *more)
        assert found.code == 1
        assert "the rows go to z.jsonl already, where the late tuples are to go" in found.err
    assert not (here / "z.jsonl").exists()


def test_an_output_that_is_an_input(script: Run, here: Path) -> None:
    before = (here / "readings.csv").read_bytes()
    found = script("SELECT k FROM s", "--output", "readings.csv")
    assert found.code == 1
    assert "readings.csv is one of the files that s is read from" in found.err
    assert (here / "readings.csv").read_bytes() == before
