"""`penstock top`, and tables of queries and operators for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import TextIO

import typer
from rich.console import Console, Group
from rich.live import Live as LiveDisplay
from rich.table import Table
from rich.text import Text

from penstock.api.database import Database
from penstock.api.execution import Running
from penstock.api.query import Query
from penstock.cli.report import count, report_outcome
from penstock.cli.stopping import EndingError, StoppedError, stopped_by_signals
from penstock.io.sinks.sink import Discarded
from penstock.local.status import AnswerStatus, ArcStatus, GraphStatus, NodeStatus
from penstock.runs.answer import LatencySummary, time_text
from penstock.runs.delivery import Target
from penstock.runs.run_options import RunOptions
from penstock.sql.parser.statements import pointing_into

_KILO = 1024
_COLUMNS = (
    *("rows in", "rows/s", "out/in", "per tuple", "busy", "idle"),
    *("held", "state", "waiting", "peak"),
)
_WIDE = 100  # characters; a narrower terminal does without some of them
_DECISIONS = 3  # the last ones
_LEFT_OUT = ("out/in", "busy", "held", "peak")


def graph_tables(now: GraphStatus, lately: GraphStatus | None = None, width: int = _WIDE) -> Group:
    """Tables of a graph. Totals are of the whole run; rates, shares and times per tuple are those
    of `lately`."""
    return Group(
        answers_table(now.answers),
        Text(),
        _operators(now, lately or now, width),
        Text(),
        *(Text(line) for line in stream_lines(now)),
        *(Text(str(decision)) for decision in now.decisions[-_DECISIONS:]),
    )


def stream_lines(now: GraphStatus) -> list[str]:
    """Lines about the progress of the streams, and the rows that were dropped under overload."""
    return [*map(str, now.sources), *dropped_lines(now)]


def dropped_lines(now: GraphStatus) -> list[str]:
    return [
        *(
            f"{stream}: {count(rows, 'row')} dropped, because they came too fast"
            for stream, rows in now.dropped.items()
        ),
        *(
            f"{each.name}: {count(each.dropped, 'row')} dropped, because a subscriber was too slow"
            for each in now.answers
            if each.dropped
        ),
    ]


def answers_table(answers: tuple[AnswerStatus, ...]) -> Table:
    queues = any(each.waiting or each.dropped for each in answers)
    named = ("waiting", "dropped") if queues else ()
    table = _table("query", "rows", "late", "rejected", *named, "median", "p99")
    for each in answers:
        waiting = (each.waiting, each.dropped) if queues else ()
        table.add_row(
            Text(each.name),
            *(f"{number:,}" for number in (each.rows, each.late, each.rejected, *waiting)),
            _time(each.latency, lambda latency: latency.median),
            _time(each.latency, lambda latency: latency.p99),
        )
    return table


def _operators(now: GraphStatus, lately: GraphStatus, width: int) -> Table:
    recent = {each.name: each for each in lately.nodes}
    told = [_cells(each, recent.get(each.name, each), now.arcs) for each in now.nodes]
    shown = [name for name in _COLUMNS if width >= _WIDE or name not in _LEFT_OUT]
    table = _table("operator", *shown)
    for label, cells in told:
        table.add_row(Text(label), *(cells[name] for name in shown))
    return table


def _cells(
    node: NodeStatus, lately: NodeStatus, arcs: tuple[ArcStatus, ...]
) -> tuple[str, dict[str, str]]:
    out, took, held = node.selectivity, lately.time_per_tuple, node.held
    cells = {
        "rows in": f"{node.flow.rows_in:,}",
        "rows/s": f"{lately.rows_per_second:,.0f}",
        "out/in": "" if out is None else f"{out:.3g}",
        "per tuple": "" if took is None else time_text(took),
        "busy": f"{lately.busy:.0%}",
        "idle": f"{lately.idle_waiting:.0%}",
    }
    if node.operator == "scan":
        return node.name, cells | dict.fromkeys(("held", "state", "waiting", "peak"), "")
    queues = [each for each in arcs if each.end == node.name]
    return f"{node.operator} {_digest(node.name)}", cells | {
        "held": f"{held.open or held.rows:,}",
        "state": size_text(held.bytes),
        "waiting": f"{sum(each.waiting for each in queues):,}",
        "peak": f"{max(each.peak for each in queues):,}",
    }


def _digest(name: str) -> str:
    """Digest that distinguishes operators of one kind, as in the table of EXPLAIN SCHEDULE."""
    return name.partition("-")[2]


def size_text(size: int) -> str:
    """Size in bytes, with a unit.

    >>> [size_text(each) for each in (17, 2_048, 5_000_000)]
    ['17 B', '2.0 KB', '4.8 MB']
    """
    if size < _KILO:
        return f"{size} B"
    if size < _KILO**2:
        return f"{size / _KILO:,.1f} KB"
    return f"{size / _KILO**2:,.1f} MB"


def _time(latency: LatencySummary, which: Callable[[LatencySummary], float | None]) -> str:
    found = which(latency)
    return "" if found is None else time_text(found)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="ellipsis", no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


# A table of a graph that is redrawn while it runs: rates are those of about the last second.

_EVERY = 4  # pictures in a second
_LONG = 120  # characters of a line, where the width is not known
_LATELY = 1.0  # seconds that rates are of


class Picture:
    """A table of a running graph, with rates of about the last second."""

    def __init__(self, look: Callable[[], GraphStatus], console: Console) -> None:
        self._look = look
        self._console = console
        self._earlier: list[tuple[float, GraphStatus]] = []
        self._last = Group()

    def __call__(self) -> Group:
        try:
            now, told = monotonic(), self._look()
        except RuntimeError:  # the graph has changed meanwhile: the next picture is soon
            return self._last
        self._earlier.append((now, told))
        while len(self._earlier) > 2 and now - self._earlier[1][0] >= _LATELY:
            del self._earlier[0]
        before = self._earlier[0][1]
        lately = told.since(before) if before is not told else told
        self._last = graph_tables(told, lately, self._console.width)
        return self._last

    def whole(self) -> Group:
        """Tables with the rates of the whole run."""
        return graph_tables(self._look(), width=self._console.width)


@contextmanager
def drawing(picture: Picture, console: Console) -> Iterator[None]:
    """Redraw the picture on a terminal until the block ends."""
    with LiveDisplay(
        console=console,
        get_renderable=picture,
        refresh_per_second=_EVERY,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield


def draw_until_stopped(picture: Picture, console: Console) -> None:
    """Redraw the picture until Ctrl-C; the last one stays."""
    try:
        with drawing(picture, console):
            Event().wait()
    except EndingError:
        raise
    except KeyboardInterrupt:
        console.print(picture())


def wide_console(out: TextIO | None = None) -> Console:
    """Make a console with long lines where the output is no terminal."""
    out = out or sys.stdout
    return Console(file=out) if out.isatty() else Console(file=out, width=_LONG)


# `penstock top`: the running queries of a script, as a table that is redrawn.
#
# Rows are counted and dropped; `penstock run` writes them.


def run_top(database: Database, text: str, options: RunOptions, console: Console) -> None:
    """Run every SELECT of the script, or its named queries if it has none; when it has ended, the
    table stays, with the rates of the whole run."""
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
