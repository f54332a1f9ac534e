"""Penstock as `pip install` without extras gives it: in a process that has none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HIDING = """
import sys

class Without:
    '''Finds what another finder finds, except the packages of the extras.'''
    def __init__(self, other):
        self._other = other
    def __getattr__(self, name):
        return getattr(self._other, name)
    def find_spec(self, name, path=None, target=None):
        return None if name in EXTRAS else self._other.find_spec(name, path, target)

sys.meta_path = [Without(each) for each in sys.meta_path]
"""
EXTRAS = {"pyspark", "pandas", "py4j", "polars", "duckdb", "matplotlib", "google.protobuf"}
WITHOUT = f"EXTRAS = {EXTRAS}\n{HIDING}"
COMMAND = WITHOUT + "from penstock.cli.main import main; main()"
SCRIPT = """\
CREATE STREAM s (k STRING, t INT) FROM VALUES ('a', 3), ('b', 12), ('a', 1)
  PROGRESS ON t DELAY 5;
SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k;
"""
QUERY = """
import penstock as ps

db = ps.connect({engine!r})
db.stream("s", [{{"k": "a", "t": 3}}, {{"k": "a", "t": 1}}], progress=ps.progress("t", delay=5))
query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k")
"""
MISSING = "the spark engine needs PySpark"
ADVICE = "pip install 'penstock[spark]'"


def python(code: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )


def printed(code: str) -> str:
    done = python(WITHOUT + code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_and_a_query() -> None:
    answer = "[{'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}]\n"
    show = "print(query.collect().to_pylist())"
    local, reference = (QUERY.format(engine=engine) + show for engine in ("local", "reference"))
    names = "for name in ps.__all__: getattr(ps, name)\n"
    assert printed(f"{local}\n{names}\n{reference}") == 2 * answer


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_the_command(engine: str) -> None:
    done = python(COMMAND, "run", "-", "--engine", engine, "--format", "csv", stdin=SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "window_start,window_end,k,n\n0,10,a,2\n10,20,b,1\n"


def test_explaining_does_not_need_spark() -> None:
    done = python(COMMAND, "explain", "-", stdin=SCRIPT)
    assert done.returncode == 0, done.stderr
    shown = printed(QUERY.format(engine="spark") + "print(query.explain())")
    assert "stage 1: WindowAggregate in 4 buckets by s.k" in shown


def test_the_demo() -> None:
    done = python(COMMAND, "demo", "--engine", "local")
    assert done.returncode == 0, done.stderr
    assert "window_start" in done.stdout


@pytest.mark.parametrize("arguments", [("run", "-"), ("demo",)])
def test_the_command_says_how_to_get_spark(arguments: tuple[str, ...]) -> None:
    """Spark is the engine of the command unless told otherwise."""
    done = python(COMMAND, *arguments, stdin=SCRIPT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {MISSING}\n")
    assert ADVICE in done.stderr
    assert "--engine local" in done.stderr
    assert "Traceback" not in done.stderr


def test_programs_are_told_how_to_get_spark() -> None:
    code = f"""
{QUERY.format(engine="spark")}
for call in (query.collect, query.dataframe, lambda: query.run(print), lambda: query.start(print)):
    try:
        call()
    except ps.EngineError as error:
        print(error)
"""
    shown = printed(code)
    assert shown.count(MISSING) == shown.count(ADVICE) == 4


def test_a_spark_without_the_rest_of_the_extra() -> None:
    """`pip install pyspark` alone does not bring pandas."""
    code = f"""
EXTRAS = {{"pandas"}}
{HIDING}
{QUERY.format(engine="spark")}
try:
    query.collect()
except ps.EngineError as error:
    print(error)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "the spark engine needs pandas" in done.stdout
    assert ADVICE in done.stdout


def test_a_spark_that_is_too_old() -> None:
    code = f"""
import importlib.metadata
importlib.metadata.version = lambda name: "3.5.9"
{QUERY.format(engine="spark")}
try:
    query.collect()
except ps.EngineError as error:
    print(error)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "the spark engine needs PySpark 4.0 or newer, and 3.5.9 is installed" in done.stdout
