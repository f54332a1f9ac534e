"""`penstock demo`: three network links whose packets come late and out of order."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from penstock.cli.report import report_account
from penstock.database import Database, Query
from penstock.sinks.output import Output, OutputFormat
from penstock.sinks.text import write_table

HERE = Path(__file__).parent / "demo"


def run_demo() -> None:
    script = (HERE / "demo.sql").read_text(encoding="utf-8")
    typer.secho(script.strip() + "\n", fg="cyan")
    database = Database(base=HERE)
    for result in database.script(script):
        if not isinstance(result, Query):
            continue
        with Output(OutputFormat.TABLE, None) as sink:
            sink.write(result.collect())
        sys.stdout.write("\n")
        report_account(result)
        if result.account.late:
            typer.echo("\nThe late ones, with the windows that they missed:")
            write_table(result.late, sys.stdout)
            typer.echo("")
