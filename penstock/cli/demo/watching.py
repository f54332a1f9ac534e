"""How the queries are doing: a table that keeps changing on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from penstock.api.started import StartedQuery
from penstock.cli.demo.recording import Recording
from penstock.model.punctuation import BEGINNING
from penstock.runs.status import RunProgress

_LOOK = 0.5  # seconds
_SAY = 4.0  # seconds between lines where there is no terminal
_REST = 3.0  # seconds after the last packet: silence closes windows, too
_COLUMNS = (
    "query",
    "packets",
    "packets/s",
    "late",
    "answers",
    "state",
    "complete until",
    "waits for",
)


def watch(started: Mapping[str, StartedQuery], recording: Recording, console: Console) -> None:
    """Until all packets have been read, and a little longer."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        said = done = 0.0
        while not done or time.monotonic() < done + _REST:
            time.sleep(_LOOK)
            _check(started)
            progress = {name: query.progress() for name, query in started.items()}
            if not done and all(each.read == recording.total for each in progress.values()):
                done = time.monotonic()
            if console.is_terminal:
                live.update(_table(progress), refresh=True)
            elif time.monotonic() - said >= _SAY:
                said = time.monotonic()
                for name, each in progress.items():
                    if each.read:
                        console.print(_line(name, each))


def _check(started: Mapping[str, StartedQuery]) -> None:
    for query in started.values():
        if not query.active:
            query.wait()  # which says why


def _table(progress: Mapping[str, RunProgress]) -> Table:
    table = Table(*_COLUMNS)
    for name, each in progress.items():
        until, waits_for = _source(each)
        table.add_row(
            name,
            f"{each.read:,}",
            f"{each.rows_per_second:,.0f}",
            f"{each.late:,}",
            f"{each.rows:,}",
            f"{each.state_bytes / 1e6:.1f} MB",
            until,
            waits_for,
        )
    return table


def _line(name: str, progress: RunProgress) -> str:
    until, waits_for = _source(progress)
    words = [
        f"{name}: {progress.read:,} packets",
        f"{progress.rows_per_second:,.0f}/s",
        f"{progress.late:,} late",
        f"{progress.rows:,} answers",
        f"complete until {until}",
        f"waits for {waits_for}",
    ]
    return ", ".join(words)


def _source(progress: RunProgress) -> tuple[str, str]:
    """How far the links have come together, and which of them hold the windows open."""
    if not progress.sources or progress.sources[0].low == BEGINNING:
        return "", ""
    (source,) = progress.sources
    reached = datetime.fromtimestamp(source.low / 1e6, UTC)
    return f"{reached:%H:%M:%S}", ", ".join(json.loads(name) for name in source.waits_for)
