"""Three links in a file, in this process: what there is to see without Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from penstock.api.database import Database
from penstock.api.query import Query
from penstock.api.running import Running
from penstock.cli.report import report_outcome
from penstock.runs.targets import Target
from penstock.sinks.output import Output, OutputFormat
from penstock.sinks.sink import Collected
from penstock.sinks.text import write_table

HERE = Path(__file__).parent


def run_local_demo() -> None:
    script = (HERE / "demo.sql").read_text(encoding="utf-8")
    typer.secho(script.strip() + "\n", fg="cyan")
    database = Database(base=HERE)
    for result in database.script(script):
        if not isinstance(result, Query):
            continue
        late = Collected()
        with Output(OutputFormat.TABLE, None) as sink:
            target = Target(sink.result(), late)
            (outcome,) = Running(result.setting, [result.plan], [target]).drive()
        sys.stdout.write("\n")
        report_outcome(outcome, result.plan)
        if outcome.account.late:
            typer.echo("\nThe late ones, with the windows that they missed:")
            write_table(late.table, sys.stdout)
            typer.echo("")
