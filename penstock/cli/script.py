"""`penstock run`: the queries of a script in one pass, each result at its place."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from penstock.cli.progress_bars import ProgressBars
from penstock.cli.report import count, report_outcome
from penstock.cli.stopping import StoppedError, stopped_by_interrupts
from penstock.database import Database, Explanation
from penstock.errors import SinkError
from penstock.language.parse import pointing_into
from penstock.query import Query
from penstock.running import Running
from penstock.sinks.output import ONE_RESULT, Output, OutputFormat
from penstock.sinks.text import SCREENFUL
from penstock.targets import Outcome, Target


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a script go, and everything else."""

    format: OutputFormat
    output: Path | None = None
    late: Path | None = None
    rejected: Path | None = None


def run_script(database: Database, text: str, places: Places) -> None:
    """Every SELECT of the script, or its named queries if it has none."""
    with ExitStack() as stack:
        rows = stack.enter_context(Output(places.format, places.output))
        late, rejected = (
            None if path is None else stack.enter_context(Output(OutputFormat.JSONL, path))
            for path in (places.late, places.rejected)
        )
        results = [result for result in database.script(text) if result is not None]
        if not results:
            results = [database.query(name) for name in database.queries]
        if not results:
            typer.echo("nothing to run: the script has no SELECT", err=True)
            return
        if len(results) > 1 and places.format in ONE_RESULT:
            raise SinkError(
                f"{places.format.value} holds one result, and the script has {len(results)}",
                hint="--format jsonl, or one SELECT per script",
            )
        queries = [result for result in results if isinstance(result, Query)]
        targets = []
        for result in results:
            place = rows.result()
            if isinstance(result, Explanation):
                place.show(result.text, result.table())
            else:
                sides = [None if side is None else side.result() for side in (late, rejected)]
                targets.append(Target(place, *sides))
        if not queries:
            return
        with pointing_into(text), _bars(places) as bars:
            plans = [query.plan for query in queries]
            watch = bars.watch if isinstance(bars, ProgressBars) else None
            line = bars.watch_spark if isinstance(bars, ProgressBars) else None
            running = Running(queries[0].setting, plans, targets, watch, line)
            with stopped_by_interrupts(running):
                outcomes = running.drive()
        if running.stopped:
            rows.stop(keep=any(outcome.written for outcome in outcomes))
            for side, number in ((late, "late"), (rejected, "rejected")):
                if side is not None:
                    side.stop(keep=any(getattr(each.account, number) for each in outcomes))
    if running.stopped:
        raise StoppedError(_what_was_done(running, outcomes, rows))
    for query, outcome in zip(queries, outcomes, strict=True):
        report_outcome(outcome, query.plan)


def _bars(places: Places) -> ProgressBars | ExitStack:
    """Progress bars where somebody sees them, and no rows come in between."""
    on_terminal = places.output is None and sys.stdout.isatty()
    if not sys.stderr.isatty() or (on_terminal and places.format is not OutputFormat.TABLE):
        return ExitStack()
    return ProgressBars(Console(stderr=True), SCREENFUL // 2 if on_terminal else None)


def _what_was_done(running: Running, outcomes: Sequence[Outcome], rows: Output) -> str:
    written = sum(outcome.written for outcome in outcomes)
    read = running.read
    where = f" to {rows.place}" if written else ""
    return f"stopped: {count(read, 'row')} read, {count(written, 'row')} written{where}"
