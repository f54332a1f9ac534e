"""The result of an experiment: its numbers next to those of the paper, and the expectations on
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

Draw = Callable[[Any], None]  # on axes of matplotlib


@dataclass(frozen=True, slots=True)
class Expectation:
    """A statement about the numbers, of the paper or of Penstock."""

    what: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """Numbers of an experiment in rows, the expectations on them, and the panels to draw."""

    name: str
    title: str
    paper: str  # what its figure shows
    rows: list[dict[str, Any]]
    expected: list[Expectation]
    draw: list[Draw] = field(default_factory=list)  # one function for each panel

    def table(self) -> Table:
        table = Table()
        for number, name in enumerate(self.rows[0]):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*map(shown_number, row.values()))
        return table

    def verdicts(self) -> Table:
        table = Table()
        table.add_column("expected")
        table.add_column("found", justify="right")
        table.add_column("")
        for each in self.expected:
            table.add_row(each.what, each.found, "[green]holds" if each.holds else "[red]missed")
        return table

    def plot(self, path: Path) -> None:
        """Draw the panels; needs matplotlib."""
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        panels = len(self.draw)
        drawing, axes = plt.subplots(
            1, panels, figsize=(6.4 * panels, 4.4), layout="constrained", squeeze=False
        )
        for axis, draw in zip(axes[0], self.draw, strict=True):
            draw(axis)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False)
        drawing.suptitle(self.title, fontweight="bold")
        drawing.savefig(path, dpi=130)
        plt.close(drawing)


def shown_number(value: object) -> str:
    """
    >>> [shown_number(value) for value in (13956.284, 0.18512, 2058, "—")]
    ['13,956', '0.185', '2,058', '—']
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
