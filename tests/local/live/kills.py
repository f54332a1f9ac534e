"""Kills a live engine in children of this process at random moments, while queries are created and
dropped on it, and makes another on its checkpoint until all data has been read.

A journal says which statements were begun and which were done, so that somebody can tell afterwards
which queries have to be there.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import penstock as ps
from tests.local.kills import FILES, STREAMS
from tests.local.kills import Place as Data
from tests.waiting import LONGEST

BOTH = "(SELECT k, v, t FROM parts UNION ALL SELECT k, v, t FROM log) AS both"
ASKED = (
    f"SELECT k, count(*) AS n, sum(v) AS total [RANGE 60, SLIDE 20, WA t] FROM {BOTH} GROUP BY k",
    "SELECT p.k AS k, p.v AS v, l.t AS met FROM parts AS p [RANGE 20], log AS l [RANGE 40]"
    " WHERE p.v = l.v",
    "SELECT k, v, t FROM parts WHERE v > 90",
    "SELECT max(v) AS most [RANGE 50 ROWS, SLIDE 50 ROWS, WA row-num] FROM log",
    "SELECT k, count(*) AS n [RANGE 200, SLIDE 200, WA t] FROM parts GROUP BY k",
    "SELECT DISTINCT k, t FROM log WHERE v % 10 = 0",
)
ENDINGS = (".jsonl", ".csv", "/")
RUNNING = 4  # queries at a time, about


@dataclass
class LivePlace:
    """Where the data is, which grows, and what has been asked for."""

    folder: Path
    seed: int
    follow: bool = False
    kills: int = 0
    created: int = 0
    data: Data = field(init=False)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.data = Data(self.folder, "", "", "", self.seed)
        self.journal = self.folder / "journal.jsonl"
        self.journal.touch()

    # --- what is said to the engine --------------------------------------------------------------

    def changes(self) -> list[str]:
        """Some statements for the next child, from what must be there by the journal."""
        there, _ = state_of(self.journal)
        said = []
        for _ in range(self.random.randrange(3)):
            if len(there) >= RUNNING and self.random.random() < 0.7:
                name = self.random.choice(sorted(there))
                there.discard(name)
                said.append(f"DROP QUERY {name}")
            else:
                number, self.created = self.created, self.created + 1
                asked = ASKED[number % len(ASKED)]
                into = f"rows/q{number}{ENDINGS[number // 2 % 3]}"
                said.append(f"CREATE QUERY q{number} AS {asked} INTO '{into}'")
        return said

    # --- engines ---------------------------------------------------------------------------------

    def database(self) -> ps.Database:
        # every look at the clock is some time later: it is saved after a few chunks
        return ps.connect(clock=ps.ManualClock(at=0, step=300_000), base=self.folder)

    def run(self, statements: list[str], follow: bool) -> list[dict[str, object]]:
        """Let an engine carry out some statements, and read what is there; how its queries are."""
        trigger = "20 milliseconds" if follow else "available-now"
        with self.database().live(checkpoint=self.folder / "checkpoint", trigger=trigger) as live:
            live.sql(STREAMS)  # as a program would, every time
            for statement in statements:
                self.note("begun", statement)
                live.sql(statement)
                self.note("done", statement)
            live.wait(timeout=100)
            told = [(each.name, each.state, each.account, each.written) for each in live.status()]
        return [
            {"name": name, "state": state, "read": account.read, "rejected": account.rejected}
            | {"late": account.late, "written": written}
            for name, state, account, written in told
        ]

    def note(self, what: str, statement: str) -> None:
        with self.journal.open("a") as file:
            file.write(json.dumps([what, statement]) + "\n")

    def run_in_child(
        self, statements: list[str], kill_after: float | None, follow: bool = False
    ) -> bool:
        """Whether the child came to its end."""
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(LONGEST, exit=True)  # nobody waits for ever
            try:
                told = self.run(statements, follow)
                (self.folder / "told.json").write_text(json.dumps(told))
                os._exit(0)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
        if kill_after is not None:
            until = time.monotonic() + kill_after
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
                if follow and self.random.random() < 0.1:
                    self.data.grow()
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.kills += 1
            return False
        assert os.WEXITSTATUS(status) == 0, "the engine failed"
        return True


def state_of(journal: Path) -> tuple[set[str], set[str]]:
    """The queries that must be there, and those that may be: a statement had been begun."""
    must: set[str] = set()
    may: set[str] = set()
    for line in journal.read_text().splitlines():
        what, statement = json.loads(line)
        verb, _, name, *_ = statement.split()
        if what == "begun":
            may.add(name)
            must.discard(name)
        elif verb == "CREATE":
            may.discard(name)
            must.add(name)
        else:
            may.discard(name)
    return must, may


def killed_often(place: LivePlace, kills: int) -> None:
    """Until there have been so many kills, while data comes; then one that is left alone."""
    (place.folder / "rows").mkdir()
    place.data.grow()
    place.created = 2
    first = [
        f"CREATE QUERY q{number} AS {ASKED[number]} INTO 'rows/q{number}.jsonl'"
        for number in range(2)
    ]
    began = time.perf_counter()
    assert place.run_in_child(first, None)
    length = time.perf_counter() - began
    while place.kills < kills:
        if not place.follow or place.kills * FILES > kills * place.data.written:
            place.data.grow()
        place.run_in_child(place.changes(), place.random.uniform(0, 1.3 * length), place.follow)
    assert place.run_in_child([], None)


def summary(folder: Path) -> list[dict[str, object]]:
    found = json.loads((folder / "told.json").read_text())
    assert isinstance(found, list)
    return found


def in_one_go(place: LivePlace, number: int, folder: Path) -> tuple[ps.Account, Path]:
    """The rows of a query in a run that nobody disturbs."""
    query = ps.connect(base=place.folder).sql(STREAMS + ASKED[number % len(ASKED)])
    assert isinstance(query, ps.Query)
    rows = folder / f"q{number}.jsonl"
    (account,) = [query.run(rows, checkpoint=folder / f"checkpoint{number}")]
    return account, rows


def rows_of(path: Path) -> Counter[str]:
    """The rows of a file, or of all files in a directory, as texts that do not tell which."""
    if path.is_dir():
        import pyarrow.parquet

        every = [pyarrow.parquet.read_table(each) for each in path.glob("part-*")]
        return Counter(str(list(row.values())) for each in every for row in each.to_pylist())
    if path.suffix == ".csv":
        import pyarrow.csv

        if not path.exists() or not path.stat().st_size:
            return Counter()
        table = pyarrow.csv.read_csv(path)
        return Counter(str(list(row.values())) for row in table.to_pylist())
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(str(list(json.loads(line).values())) for line in lines)
