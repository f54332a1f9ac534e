"""`penstock top`: the queries of a script at work, as a table that is drawn again and again.

Rows are counted and gone; who wants them runs the script.
"""

from __future__ import annotations

import typer
from rich.console import Console

from penstock.api.database import Database
from penstock.api.query import Query
from penstock.api.running import Running
from penstock.cli.picture import Picture, drawing
from penstock.cli.report import count, report_outcome
from penstock.cli.stopping import StoppedError, stopped_by_signals
from penstock.language.parse import pointing_into
from penstock.runs.options import RunOptions
from penstock.runs.targets import Target
from penstock.sinks.discarded import Discarded


def run_top(database: Database, text: str, options: RunOptions, console: Console) -> None:
    """Every SELECT of the script, or its named queries if it has none; when it has ended, the table
    stays, with the rates of the whole run."""
    found = [each for each in database.script(text) if isinstance(each, Query)]
    queries = found or [database.query(name) for name in database.queries]
    if not queries:
        typer.echo("nothing to run: the script has no SELECT", err=True)
        return
    names = [each.name or f"query {number}" for number, each in enumerate(queries, start=1)]
    with pointing_into(text):
        targets = [Target(Discarded()) for _ in queries]
        running = Running(queries[0].setting, [each.plan for each in queries], targets, options)
        picture = Picture(lambda: running.graph_status(names), console)
        with stopped_by_signals(running) as told, drawing(picture, console):
            outcomes = running.drive()
    console.print(picture.whole())
    if running.stopped:
        raise StoppedError(f"stopped: {count(running.read, 'row')} read", told.code)
    for query, outcome in zip(queries, outcomes, strict=True):
        report_outcome(outcome, query.plan)
