"""`penstock reproduce`: experiments of the papers, with their tables and pictures."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from penstock.errors import EngineError, nearest
from penstock.experiments.catalogue import EXPERIMENTS
from penstock.experiments.conducting import Conduct
from penstock.experiments.figure import Figure


def reproduce_experiments(name: str, out: Path, conduct: Conduct) -> None:
    """One of them, or all.  On the simulated clock, every run is the same, so that an expectation
    which is missed is an error."""
    if name != "all" and name not in EXPERIMENTS:
        close = nearest(name, list(EXPERIMENTS))
        raise EngineError(
            f"there is no experiment called {name!r}",
            expected=f"all, or one of {', '.join(EXPERIMENTS)}",
            hint=close[0] if close else None,
        )
    if conduct.quick and conduct.real_time:
        raise EngineError(
            "--quick is for the simulated clock, and --real-time goes by the clock on the wall",
            expected="one of them",
        )
    console, missed = Console(), []
    pictures = find_spec("matplotlib") is not None
    for each in EXPERIMENTS if name == "all" else [name]:
        figure = EXPERIMENTS[each](conduct)
        _show(figure, console)
        _write(figure, out, pictures)
        missed += [f"{figure.name}: {it.what}" for it in figure.expected if not it.holds]
    console.print(f"written to {out}", soft_wrap=True)
    if not pictures:
        console.print("no pictures: they need matplotlib (pip install 'penstock\\[plots]')")
    if missed and not conduct.real_time:  # there, times are also those of what else is going on
        raise EngineError(f"not as expected: {'; '.join(missed)}")


def _show(figure: Figure, console: Console) -> None:
    console.print(f"[bold]{figure.title}", soft_wrap=True)
    console.print(figure.table())
    console.print(f"The paper: {figure.paper}.", soft_wrap=True)
    console.print(figure.verdicts())


def _write(figure: Figure, out: Path, pictures: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{figure.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(figure.rows[0]))
        writer.writeheader()
        writer.writerows(figure.rows)
    if pictures:
        figure.plot(out / f"{figure.name}.png")
