"""The queries and operators of a graph as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from penstock.cli.report import count
from penstock.engine.status import AnswerStatus, ArcStatus, GraphStatus, NodeStatus
from penstock.runs.latency import LatencySummary, time_text

_KILO = 1024
_COLUMNS = (
    *("rows in", "rows/s", "out/in", "per tuple", "busy", "idle"),
    *("held", "state", "waiting", "peak"),
)
_WIDE = 100  # characters; a narrower terminal does without some of them
_DECISIONS = 3  # the last ones
_LEFT_OUT = ("out/in", "busy", "held", "peak")


def graph_tables(now: GraphStatus, lately: GraphStatus | None = None, width: int = _WIDE) -> Group:
    """Totals are of all the time; rates, shares and times per tuple of what happened `lately`."""
    return Group(
        answers_table(now.answers),
        Text(),
        _operators(now, lately or now, width),
        Text(),
        *(Text(line) for line in stream_lines(now)),
        *(Text(str(decision)) for decision in now.decisions[-_DECISIONS:]),
    )


def stream_lines(now: GraphStatus) -> list[str]:
    """How far the streams have come, and which rows were dropped because of too much load."""
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
    """What tells operators of one kind apart, as in the table of EXPLAIN SCHEDULE."""
    return name.partition("-")[2]


def size_text(size: int) -> str:
    """
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
