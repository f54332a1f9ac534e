"""`penstock run`: the queries of a script in one pass, each result at its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from penstock.api.database import Database
from penstock.api.display import Explanation
from penstock.api.execution import Running
from penstock.api.query import Query
from penstock.cli.report import ProgressBars, count, report_outcome
from penstock.cli.stopping import StoppedError, stopped_by_signals
from penstock.errors import SinkError
from penstock.io.sinks.output import ONE_RESULT, Output, OutputFormat
from penstock.io.sinks.text import SCREENFUL
from penstock.runs.delivery import Delivery, Outcome, SinkLike, Target, check_places
from penstock.runs.run_options import RunOptions
from penstock.sql.parser.statements import pointing_into


@dataclass(frozen=True, slots=True)
class Places:
    """Outputs of a script: for rows, late tuples and rejected rows. Without a format, the ending of
    a path decides."""

    format: OutputFormat | None
    output: Path | None = None
    late: Path | None = None
    rejected: Path | None = None


def run_script(
    database: Database, text: str, places: Places, options: RunOptions | None = None
) -> None:
    """Run every SELECT of the script, or its named queries if it has none."""
    options = options or RunOptions()
    with ExitStack() as stack:
        outputs = _Outputs(places, stack)
        results = [result for result in database.script(text) if result is not None]
        if not results:
            results = [database.query(name) for name in database.queries]
        if not results:
            typer.echo("nothing to run: the script has no SELECT", err=True)
            return
        queries = [result for result in results if isinstance(result, Query)]
        given = (places.output, places.late, places.rejected)
        check_places([query.plan for query in queries], [given])
        if options.checkpoint is None:
            targets = outputs.targets(results)
        else:
            targets = _kept_targets(results, places, options, stack)
        if not queries:
            return
        with pointing_into(text), _bars(places) as bars:
            plans = [query.plan for query in queries]
            watch = bars.watch if isinstance(bars, ProgressBars) else None
            line = bars.watch_spark if isinstance(bars, ProgressBars) else None
            if isinstance(bars, ProgressBars) and database.engine == "spark":
                bars.begin_spark()
            running = Running(queries[0].setting, plans, targets, options, watch, line)
            if running.closed is not None:
                typer.echo(running.closed, err=True)
            say, following = _write_to_stderr, ExitStack()
            if isinstance(bars, ProgressBars):
                say = bars.say
                following.enter_context(bars.following(running.doing))
            with stopped_by_signals(running, say) as received, following:
                outcomes = running.drive()
        if running.stopped:
            outputs.stop(outcomes)
    if running.stopped:
        raise StoppedError(_what_was_done(running, outcomes, outputs, options), received.code)
    for query, outcome in zip(queries, outcomes, strict=True):
        report_outcome(outcome, query.plan, places.rejected)


class _Outputs:
    """Files that appear when the run has ended, and standard output."""

    def __init__(self, places: Places, stack: ExitStack) -> None:
        self._places = places
        self._stack = stack
        self._rows: Output | None = None
        self._sides: dict[str, Output] = {}

    def targets(self, results: Sequence[Query | Explanation]) -> list[Target]:
        places = self._places
        chosen = places.format or OutputFormat.TABLE
        self._rows = self._stack.enter_context(Output(chosen, places.output))
        for name, path in (("late", places.late), ("rejected", places.rejected)):
            if path is not None:
                output = Output(OutputFormat.JSONL, path)
                self._sides[name] = self._stack.enter_context(output)
        if len(results) > 1 and chosen in ONE_RESULT:
            raise SinkError(
                f"{chosen.value} holds one result, and the script has {len(results)}",
                hint="--format jsonl, or one SELECT per script",
            )
        made = []
        for result in results:
            place = self._rows.result()
            if isinstance(result, Explanation):
                place.show(result.text, result.table())
            else:
                sides = {name: output.result() for name, output in self._sides.items()}
                made.append(Target(place, sides.get("late"), sides.get("rejected")))
        return made

    def stop(self, outcomes: Sequence[Outcome]) -> None:
        """Mark the results as incomplete."""
        if self._rows is not None:
            self._rows.stop(keep=any(outcome.written for outcome in outcomes))
        for name, side in self._sides.items():
            side.stop(keep=any(getattr(each.account, name) for each in outcomes))

    @property
    def place(self) -> str:
        """The place where the rows went, for a message."""
        return self._rows.place if self._rows is not None else str(self._places.output)


def _kept_targets(
    results: Sequence[Query | Explanation],
    places: Places,
    options: RunOptions,
    stack: ExitStack,
) -> list[Target]:
    """Make the targets of a run with a checkpoint, whose outputs a later run continues."""
    queries = []
    for result in results:
        if isinstance(result, Explanation):
            typer.echo(result.text)
        else:
            queries.append(result)
    several = len(queries) > 1
    formats = (places.format, OutputFormat.JSONL)
    delivery = stack.enter_context(Delivery(options, formats=formats))
    sinks: list[list[SinkLike | None]] = []
    for number in range(len(queries)):
        given = (places.output, places.late, places.rejected)
        if several and any(path is not None and path.suffix for path in given):
            raise SinkError(
                f"a file holds the rows of one query, and the script has {len(queries)}",
                expected="directories, because there is a checkpoint",
                hint="--output results/",
            )
        sinks.append([path / str(number) if several and path else path for path in given])
    return delivery.targets(sinks)


def _bars(places: Places) -> ProgressBars | ExitStack:
    """Progress bars if standard error is a terminal and no rows are written in between."""
    on_terminal = places.output is None and sys.stdout.isatty()
    if not sys.stderr.isatty() or (on_terminal and places.format not in (None, OutputFormat.TABLE)):
        return ExitStack()
    return ProgressBars(Console(stderr=True), SCREENFUL // 2 if on_terminal else None)


def _write_to_stderr(text: str) -> None:
    """Write a message in a signal handler, without waiting for output that Python buffers
    meanwhile."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


def _what_was_done(
    running: Running, outcomes: Sequence[Outcome], outputs: _Outputs, options: RunOptions
) -> str:
    written = sum(outcome.written for outcome in outcomes)
    where = f" to {outputs.place}" if written else ""
    later = "; the same command goes on" if options.checkpoint is not None else ""
    return (
        f"stopped: {count(running.read, 'row')} read, {count(written, 'row')} written{where}{later}"
    )
