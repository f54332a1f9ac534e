"""Kills a live engine in children of this process while queries that share panes are created and
dropped on it.  The stream can be read only once by each engine, so that newcomers share with those
that are there, and gives the same rows to every one of them.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import penstock as ps
from tests.waiting import LONGEST

ROWS = 2_000
OUT = {"n": "BIGINT", "k": "STRING", "x": "BIGINT", "t": "BIGINT"}
LATE = ps.progress("t", delay=20)
WINDOWS = ((40, 10), (30, 30), (60, 20), (50, 5), (40, 10))
FILTERS = ("x >= 2", "x < 4", "x >= 5", "k = 'a'", "x <> 3", "x BETWEEN 1 AND 6")
TEXT = tuple(
    f"SELECT k, window_end AS e, count(*) AS c, sum(x) AS s, {call} AS m"
    f" [RANGE {WINDOWS[n % 5][0]}, SLIDE {WINDOWS[n % 5][1]}, WA t]"
    f" FROM s WHERE TRUE AND {FILTERS[n % 6]} GROUP BY k"
    for n, call in enumerate(["max(x)", "min(n)", "median(x)", "avg(x)", "last(n)"] * 6)
)


def stream(pause: float) -> Iterator[dict[str, object]]:
    """With some rows that are out of order, and a few that are late."""
    for n in range(ROWS):
        if pause and n % 20 == 0:
            time.sleep(pause)
        behind = n * 7919 % 23 if n % 97 else 60
        yield {"n": n, "k": "abc"[n * 31 % 3], "x": n * 17 % 8, "t": max(0, n // 2 - behind)}


def run(folder: Path, statements: list[str], journal: Path, pause: float) -> None:
    # every look at the clock is some time later: it is saved after a few rows
    db = ps.connect(clock=ps.ManualClock(at=0, step=50_000), base=folder)
    db.stream("s", stream(pause), schema=OUT, progress=LATE)
    with db.live(checkpoint=folder / "checkpoint") as live:
        for statement in statements:
            if pause:
                time.sleep(pause)
            _note(journal, "begun", statement)
            live.sql(statement)
            _note(journal, "done", statement)
        live.wait(timeout=100)
        kinds = [node.operator for node in live.graph_status().nodes]
        queries = {
            each.name: {"read": each.account.read, "late": each.account.late}
            for each in live.status()
        }
    told = {"queries": queries, "shared": kinds.count("WindowsOfPanes")}
    (folder / "told.json").write_text(json.dumps(told))


def killed_often(folder: Path, kills: int, seed: int) -> None:
    """A child for every kill, which comes at a moment of its statements; then one that is left
    alone, in which those have to be there that had been created and not dropped."""
    rng, journal, created = random.Random(seed), folder / "journal.jsonl", 3
    journal.touch()
    child(folder, [create(n) for n in range(3)], journal, 0.005, (6, 0.1))
    for _ in range(kills):
        must, _ = there(journal)
        said = [f"DROP QUERY {name}" for name in sorted(must)[: len(must) > 5]]
        for _ in range(rng.randrange(1, 4)):
            said.append(create(created))
            created += 1
        rng.shuffle(said)
        child(folder, said, journal, 0.005, (rng.randint(0, 2 * len(said)), rng.uniform(0, 0.1)))
    must, may = there(journal)
    child(folder, [create(created), create(created + 1)], journal, 0.0, None)
    told = json.loads((folder / "told.json").read_text())["queries"]
    new = {f"q{created}", f"q{created + 1}"}
    assert must <= told.keys() - new <= must | may, (must, may, told.keys())


def create(number: int) -> str:
    return f"CREATE QUERY q{number} AS {TEXT[number % len(TEXT)]} INTO 'q{number}.jsonl'"


def child(
    folder: Path,
    statements: list[str],
    journal: Path,
    pause: float,
    kill_after: tuple[int, float] | None,
) -> None:
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(LONGEST, exit=True)  # nobody waits for ever
        try:
            run(folder, statements, journal, pause)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    if kill_after is not None:  # so many lines of the journal, and then a moment
        lines, until = _lines(journal) + kill_after[0], time.monotonic() + LONGEST
        while _lines(journal) < lines and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(kill_after[1])
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the engine failed"


def there(journal: Path) -> tuple[set[str], set[str]]:
    """The queries that must be there, and those that may be."""
    must, may = set[str](), set[str]()
    for line in journal.read_text().splitlines():
        what, statement = json.loads(line)
        verb, _, name, *_ = statement.split()
        must.discard(name)
        may.discard(name)
        if what == "begun":
            may.add(name)
        elif verb == "CREATE":
            must.add(name)
    return must, may


def _lines(journal: Path) -> int:
    """How often a statement was begun or done."""
    return journal.read_text().count("\n")


def _note(journal: Path, what: str, statement: str) -> None:
    with journal.open("a") as file:
        file.write(json.dumps([what, statement]) + "\n")
