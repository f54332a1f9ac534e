"""What the queries answered, as a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

_SHOWN = 5  # talkers


def plot(traffic: pa.Table, talkers: pa.Table, path: Path, console: Console) -> None:
    if find_spec("matplotlib") is None:
        console.print("no picture: it needs matplotlib (pip install 'penstock\\[demo]')")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(2, 1, figsize=(9, 7), layout="constrained", sharex=True)
    links = sorted(set(traffic.column("link").to_pylist()))
    _draw(axes[0], traffic, "link", links, "Traffic per link (RANGE 20 s, SLIDE 2 s)")
    sums = talkers.group_by("srcIP").aggregate([("bytes", "sum")])
    most = sums.sort_by([("bytes_sum", "descending")]).slice(0, _SHOWN)
    loudest = most.column("srcIP").to_pylist()
    _draw(axes[1], talkers, "srcIP", loudest, "Top talkers (RANGE 60 s, SLIDE 2 s)")
    axes[1].set_xlabel("end of the window")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=130)
    plt.close(drawing)
    console.print(f"picture: {path}")


def _draw(axis: Any, answer: pa.Table, key: str, chosen: list[str], title: str) -> None:
    ends = sorted(set(answer.column("window_end").to_pylist()))
    for name in chosen:
        own = answer.filter(pc.equal(answer.column(key), name))
        sent = dict(zip(*(own.column(c).to_pylist() for c in ("window_end", "bytes")), strict=True))
        # a group without packets has no row
        axis.plot(ends, [sent.get(end, 0) / 1e6 for end in ends], label=name)
    axis.set(title=title, ylabel="MB in the window")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
