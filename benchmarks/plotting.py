"""Figures that look alike: one colour per contender, a title, axes with units, a light grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

import matplotlib.pyplot as plt

COLOURS = {
    "WID": "C0",
    "Paned-WID": "C2",
    "AdaptWID": "C1",
    "buffering": "C3",
    "eager": "C0",
    "lazy": "C3",
    "scan": "0.5",
}
MARKERS = {"WID": "o", "Paned-WID": "s", "AdaptWID": "^", "buffering": "D"}


@contextmanager
def figure(
    path: Path, title: str, panels: int = 1, width: float = 0, sharey: bool = False
) -> Iterator[list[Any]]:
    """Axes to draw on, side by side; saved when done."""
    size = (width or (7.5 if panels == 1 else 5.2 * panels), 4.4)
    drawing, axes = plt.subplots(1, panels, figsize=size, layout="constrained", sharey=sharey)
    try:
        flat = list(np.atleast_1d(axes))
        for axis in flat:
            axis.grid(alpha=0.25)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        drawing.suptitle(title, fontweight="bold")
        yield flat
        drawing.savefig(path, dpi=130)
    finally:
        plt.close(drawing)


def shade(number: int, of: int) -> Any:
    """The colour of one in a row of lines, from light to dark."""
    return plt.get_cmap("viridis")(0.9 * (1 - number / max(1, of - 1)))
