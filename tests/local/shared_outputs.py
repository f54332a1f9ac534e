"""Kills runs of two checkpoints over files that grow, while they take turns with their outputs.

Both may write to the same places, sometimes at the same time; places change from run to run, and
are exchanged for those of another.  Whatever is refused, the rows of each checkpoint are in the end
in the places that it has written to, once.
"""

from __future__ import annotations

import csv
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet

import penstock as ps
import penstock.api.database
import penstock.local.scheduling.scheduler  # otherwise every child would import it
from tests.waiting import LONGEST

ROWS = 6_000  # of each file, in the end
PLACES = ("a.jsonl", "b.csv", "c", "d.jsonl", "e")
RUNS = ("one", "other")
NOTES = ("", "plain", 'say "hi"', "two\nlines", "a,b", "é€𝄞", "cr\r\nlf")
STREAMS = """
CREATE STREAM parts (n INT, note STRING, t INT) FROM FILES 'parts.csv' PROGRESS ON t DELAY 20;
CREATE STREAM log (n INT, note STRING, t INT) FROM FILES 'log.jsonl' PROGRESS ON t DELAY 20;
"""
BOTH = "(SELECT n, note, t FROM parts UNION ALL SELECT n, note, t FROM log) AS both"
REFUSED = 3  # the code of a child that said why


def kill_at_step(number: int) -> None:
    """Kill this process when so many steps have been made that bring something to disk, or when the
    next one is to be made."""
    made = 0

    def counting(name: str) -> None:
        step = getattr(os, name)

        def counted(*given: object, **named: object) -> object:
            nonlocal made
            made += 1
            if made == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*given, **named)

        setattr(os, name, counted)

    for name in ("fsync", "link", "replace", "unlink"):
        counting(name)


@dataclass
class Shared:
    folder: Path
    seed: int
    kills: int = 0
    refused: int = 0
    exchanged: int = 0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        (self.folder / "out").mkdir(parents=True)
        rows = [(n, self.random.choice(NOTES), n - n % 7) for n in range(2 * ROWS)]
        self.rest = {"parts.csv": b"", "log.jsonl": b""}
        with (self.folder / "parts.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["n", "note", "t"])
            writer.writerows(rows[::2])
        lines = ({"n": n, "note": note, "t": t} for n, note, t in rows[1::2])
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (self.folder / "log.jsonl").write_text(text)
        self.total = 0
        for name in self.rest:
            self.rest[name] = (self.folder / name).read_bytes()
            (self.folder / name).write_bytes(b"")
            self.total += len(self.rest[name])
        self.row = 0

    def grow(self, share: float) -> None:
        """Some more bytes, which end anywhere."""
        for name, rest in self.rest.items():
            size = int(self.random.uniform(0, 2 * share * self.total / 2))
            with (self.folder / name).open("ab") as file:
                file.write(rest[:size])
            self.rest[name] = rest[size:]

    # --- runs ------------------------------------------------------------------------------------

    def run(self, name: str, place: str, final: bool) -> None:
        # every look at the clock is some time later: an epoch ends after a few chunks
        db = ps.connect(clock=ps.ManualClock(at=0, step=300_000), base=self.folder)
        query = db.sql(f"{STREAMS} SELECT '{name}' AS run, n, note FROM {BOTH}")
        assert isinstance(query, ps.Query)
        kept = self.folder / name
        query.run(self.folder / "out" / place, checkpoint=kept, final=final)

    def start(self, name: str, place: str, final: bool = False, die_at: int | None = None) -> int:
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(LONGEST, exit=True)  # nobody waits for ever
            if die_at is not None:
                kill_at_step(die_at)
            try:
                self.run(name, place, final)
                os._exit(0)
            except ps.PenstockError:
                os._exit(REFUSED)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
        return child

    def end(self, child: int, kill_at: float | None = None) -> int | None:
        """The code of a child that has ended by itself; None: it was killed."""
        while kill_at is not None:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() >= kill_at:
                os.kill(child, signal.SIGKILL)
                kill_at = None
            else:
                time.sleep(0.001)
        else:
            _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.kills += 1
            return None
        code = os.WEXITSTATUS(status)
        assert code in (0, REFUSED), "the run failed"
        self.refused += code == REFUSED
        return code

    def place_for(self, name: str, new: float = 0.3) -> str:
        """Mostly where the checkpoint has written last."""
        try:
            outputs = json.loads((self.folder / name / "outputs.json").read_text())["outputs"]
            last = Path(outputs["rows"]["place"]).name
        except (OSError, KeyError):
            last = self.random.choice(PLACES)
        return self.random.choice(PLACES) if self.random.random() < new else last

    def exchange(self, name: str) -> None:
        """What a checkpoint has written is another's for the length of a run."""
        place = self.place_for(name, new=0)
        path, beside = self.folder / "out" / place, self.folder / "beside"
        if not path.exists() or self.end(self.start(name, place)) == REFUSED:
            return
        path.rename(beside)
        if beside.is_dir():
            path.mkdir()
            left: bytes | None = None
        else:
            left = beside.read_bytes().replace(b"n", b"m") + b"another\n" * 50
            path.write_bytes(left)
        self.grow(0.001)
        for source in self.rest:  # so that there is something to write
            self.complete(source)
        assert self.end(self.start(name, place)) == REFUSED
        self.exchanged += 1
        if left is None:
            assert not list(path.iterdir())
            path.rmdir()
        else:
            assert path.read_bytes() == left
            path.unlink()
        beside.rename(path)

    def complete(self, source: str) -> None:
        """A file ends with a line, unless a quote is open."""
        line, end, self.rest[source] = self.rest[source].partition(b"\n")
        with (self.folder / source).open("ab") as file:
            file.write(line + end)

    # --- what they have written ------------------------------------------------------------------

    def written(self) -> dict[str, Counter[tuple[int, str]]]:
        found: dict[str, Counter[tuple[int, str]]] = {name: Counter() for name in RUNS}
        for path in (self.folder / "out").iterdir():
            for run, n, note in rows_of(path):
                found[run][int(n), note or ""] += 1
        return found

    def lost_and_doubled(self) -> tuple[int, int]:
        expected: Counter[tuple[int, str]] = Counter()
        with (self.folder / "parts.csv").open(newline="") as file:
            expected.update((int(n), note) for n, note, _ in list(csv.reader(file))[1:])
        for line in (self.folder / "log.jsonl").read_text().split("\n")[:-1]:
            row = json.loads(line)
            expected[row["n"], row["note"]] += 1
        found = self.written().values()
        lost = sum((expected - each).total() for each in found)
        return lost, sum((each - expected).total() for each in found)


def rows_of(path: Path) -> list[tuple[str, str, str]]:
    if path.is_dir():
        tables = [pyarrow.parquet.read_table(part) for part in path.glob("part-*")]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [(run, n, note) for run, n, note in list(csv.reader(file))[1:]]
    lines = path.read_text().split("\n")[:-1]
    return [tuple(json.loads(line).values()) for line in lines]


def killed_often(shared: Shared, kills: int) -> None:
    """Until there have been so many; then each is left alone."""
    chance, length = shared.random, 0.3
    while shared.kills < kills:
        shared.grow(1 / (2 * kills))
        names = RUNS if chance.random() < 0.5 else (chance.choice(RUNS),)
        together = chance.choice(PLACES) if chance.random() < 0.3 else None
        began = time.monotonic()
        steps = [chance.randrange(1, 30) if chance.random() < 0.5 else None for _ in names]
        children = [
            shared.start(name, together or shared.place_for(name), die_at=step)
            for name, step in zip(names, steps, strict=True)
        ]
        until = [
            began + chance.uniform(0, 1.5 * length) if step is None else None for step in steps
        ]
        codes = [shared.end(*each) for each in zip(children, until, strict=True)]
        if codes.count(0) == len(codes):
            length = time.monotonic() - began  # as long as it takes now
        if chance.random() < 0.1:
            shared.exchange(chance.choice(RUNS))
    shared.grow(2)
    for source, rest in shared.rest.items():
        with (shared.folder / source).open("ab") as file:
            file.write(rest)
    for name in RUNS:
        places = [shared.place_for(name, new=0), *PLACES, f"last-{name}.jsonl"]
        assert any(shared.end(shared.start(name, place, final=True)) == 0 for place in places)


if __name__ == "__main__":
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    shared = Shared(folder, seed)
    killed_often(shared, kills)
    lost, doubled = shared.lost_and_doubled()
    print(
        f"{shared.kills} kills, {shared.refused} refused, {shared.exchanged} exchanged,"
        f" {lost} lost, {doubled} doubled"
    )
    if lost or doubled:
        sys.exit(1)
    shutil.rmtree(folder)
