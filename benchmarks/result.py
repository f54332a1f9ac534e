"""What a benchmark hands back: rows of numbers, and the bars they are held against."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """An upper limit for a measured number."""

    what: str
    limit: float
    found: float
    unit: str = "×"

    @property
    def holds(self) -> bool:
        return self.found <= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    """`rows` have the same columns; `agreed` names the contenders whose answers were compared with
    each other, and how many rows they had."""

    name: str
    title: str
    rows: list[Row]
    agreed: dict[str, int]
    bars: list[Bar] = field(default_factory=list)
    plot: Callable[[Path], None] | None = None

    def table(self) -> Table:
        table = Table()
        for number, name in enumerate(self.rows[0]):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*map(shown, row.values()))
        return table

    def write(self, folder: Path) -> None:
        with (folder / f"{self.name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]))
            writer.writeheader()
            writer.writerows(self.rows)
        if self.plot is not None:
            self.plot(folder / f"{self.name}.png")


def bar_table(bars: list[Bar]) -> Table:
    table = Table()
    for name in ("bar", "at most", "found", ""):
        table.add_column(name, justify="left" if name == "bar" else "right")
    for bar in bars:
        verdict = "[green]holds" if bar.holds else "[red]missed"
        found = f"{shown(bar.found)} {bar.unit}"
        table.add_row(bar.what, f"{bar.limit:g} {bar.unit}", found, verdict)
    return table


def shown(value: object) -> str:
    """
    >>> [shown(value) for value in (1234567, 0.01234, 12.345, 123.4, "text")]
    ['1,234,567', '0.0123', '12.3', '123', 'text']
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
