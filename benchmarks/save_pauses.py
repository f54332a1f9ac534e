"""How long a save stops a live engine, by how much state there is and how much of it has changed.

A sliding count keeps as many panes as its window is long.  Between two saves, tuples come to some
of the last ones: what is written is what they have changed, however many others are kept.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.result import Bar, Result, Row
from penstock.local.live.checkpoint import LiveCheckpoint
from penstock.local.live.queries import LiveQueries

LIMIT = 2.0  # times as long with the most state as with the least
GROUPS = 10  # in every pane
SQL = (
    "CREATE QUERY counts AS SELECT /*+ PANED */ k, window_start, count(*) AS n"
    " [RANGE {range}, SLIDE {slide}, WA t] FROM s GROUP BY k INTO 'counts.jsonl'"
)


def run(quick: bool = False) -> Result:
    sizes, saves = ((50, 500), 5) if quick else ((100, 1_000, 10_000, 50_000), 30)
    rows, agreed = [], {}
    for changed in (1, 20):
        for kept in sizes:
            taken, counted = paused(kept, changed, saves)
            agreed[f"{changed} of {kept:,} panes"] = counted
            pauses = np.array(taken) / 1e6
            rows.append(
                {
                    "panes kept": kept,
                    "panes changed": changed,
                    "median ms": float(np.median(pauses)),
                    "highest ms": float(pauses.max()),
                    "ms a changed pane": float(np.median(pauses)) / changed,
                }
            )
    bars = []
    for changed in (1, 20):
        least, *_, most = (row for row in rows if row["panes changed"] == changed)
        what = f"{changed} of {most['panes kept']:,} panes changed, against {least['panes kept']}"
        bars.append(Bar(what, LIMIT, most["median ms"] / least["median ms"]))
    title = f"The graph stands still while a save is made, {saves} saves each"
    return Result("save_pauses", title, rows, agreed, bars, partial(plot, rows))


class Timed:
    """Saves of engines, and how many nanoseconds each has taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self._own: Callable[[LiveCheckpoint, LiveQueries], list[BaseException]]

    def __enter__(self) -> Timed:
        self._own = own = LiveCheckpoint.save

        def save(checkpoint: LiveCheckpoint, queries: LiveQueries) -> list[BaseException]:
            begun = perf_counter_ns()
            try:
                return own(checkpoint, queries)
            finally:
                self.taken.append(perf_counter_ns() - begun)

        LiveCheckpoint.save = save  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        LiveCheckpoint.save = self._own  # type: ignore[method-assign]


def plot(rows: list[Row], path: Path) -> None:
    with plotting.figure(path, "How long a save stops the graph") as (axis,):
        for changed in sorted({row["panes changed"] for row in rows}):
            some = [row for row in rows if row["panes changed"] == changed]
            kept, medians = ([row[name] for row in some] for name in ("panes kept", "median ms"))
            axis.plot(kept, medians, marker="o", label=f"{changed} changed")
        axis.set(xscale="log", ylim=(0, None), xlabel="panes kept", ylabel="median pause (ms)")
        axis.legend()


def paused(kept: int, changed: int, saves: int) -> tuple[list[int], int]:
    """Nanoseconds that saves have taken, when so many panes are kept and some have changed; and how
    many tuples were counted in the end, which are all that have come."""
    said: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
    schema = {"k": "INT", "t": "BIGINT"}

    def batches() -> Iterator[pa.RecordBatch]:
        return iter(said.get, None)

    with TemporaryDirectory() as folder, Timed() as timed:
        db = ps.connect(base=Path(folder))
        db.stream("s", batches, schema=schema, progress=ps.progress("t", ordered=True))
        live = db.live(checkpoint=Path(folder) / "kept")
        window = 2 * (kept + changed * saves)  # a pane for every tick, and nothing ends
        live.sql(SQL.format(range=window + 1, slide=window))
        end = 0

        def say(panes: int) -> None:
            nonlocal end
            times = np.repeat(np.arange(end, end + panes), GROUPS)
            keys = np.tile(np.arange(GROUPS, dtype=np.int32), panes)
            end += panes
            read = live.status()[0].account.read
            said.put(pa.record_batch([pa.array(keys), pa.array(times)], names=["k", "t"]))
            while live.status()[0].account.read < read + len(times):
                pass

        say(kept)
        live.pause()
        timed.taken.clear()
        for _ in range(saves):
            live.resume()
            say(changed)
            live.pause()
        taken = timed.taken[1::2]
        said.put(None)
        live.stop(final=True)
        lines = (Path(folder) / "counts.jsonl").read_text(encoding="utf-8").splitlines()
    counted = sum(json.loads(line)["n"] for line in lines if json.loads(line)["window_start"] <= 0)
    assert counted == end * GROUPS, f"{counted} of {end * GROUPS} tuples were counted"
    return taken, counted
