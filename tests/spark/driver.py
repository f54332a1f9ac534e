"""A driver in a process of its own, to be killed: runs queries on Spark, one after the other, and
keeps the checkpoint and the results of each in a directory.  Operators are exchanged whenever
others may be better.

python driver.py MASTER PORTIONS SINKS DIRECTORY QUERY.sql…

SINKS is "directory" (a file for every micro-batch) or "file" (one that is appended to).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import penstock as ps
from penstock.io.sinks.file_sinks import AppendedFile, PartFiles
from penstock.io.sinks.output import OutputFormat
from penstock.io.sinks.sink import Ledger, Sink
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import Host
from penstock.runs.answer import Outlet
from penstock.runs.run_options import Adaptation
from penstock.spark.run.streaming import Options, SparkRun
from penstock.spark.session.session import session

WHENEVER = Adaptation(margin=1.0, agreeing=1, rows=1, share=float("inf"))
SIDES = ("rows", "late", "rejected")
JSONL = OutputFormat.JSONL


class SayingOutlet(Outlet):
    def commit(self, epoch: int) -> None:
        super().commit(epoch)
        print("committed", epoch, flush=True)


def into_directories(query: QueryPlan, directory: Path) -> Outlet:
    rows, late, rejected = (PartFiles(directory / side, JSONL, "checkpoint") for side in SIDES)
    return SayingOutlet(query, rows, late, rejected)


def into_files(query: QueryPlan, directory: Path) -> Outlet:
    directory.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(directory / "checkpoint" / "outputs.json")

    def sink(side: str) -> Sink:
        return AppendedFile(directory / f"{side}.jsonl", JSONL, ledger, side)

    return SayingOutlet(query, *map(sink, SIDES), ledger)


SINKS: dict[str, Callable[[QueryPlan, Path], Outlet]] = {
    "directory": into_directories,
    "file": into_files,
}


def main(master: str, portions: str, sinks: str, directory: str, *queries: str) -> None:
    spark = session(master, {"spark.executor.memory": "512m"})
    for path in map(Path, queries):
        db = ps.connect("reference", base=path.parent)
        *_, query = db.script(path.read_text(encoding="utf-8"))
        assert isinstance(query, ps.Query)
        own = Path(directory) / path.stem
        receiver = SINKS[sinks](query.plan, own)
        options = Options(
            own / "checkpoint", portions=int(portions), buckets=2, final=True, adaptation=WHENEVER
        )
        plan = physical_plan(query.plan, Settings(host=Host.SPARK))
        run = SparkRun([plan], spark, [receiver], options)
        run.start()
        print("started", path.stem, flush=True)
        run.wait()
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
