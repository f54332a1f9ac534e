"""A drift that inverts selectivities, in the middle of a join of three streams: how fast each plan
is from window to window, and how soon a plan that adapts is as fast as the best one again.

Tuples of r match few of s and many of t, until it is the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.measuring import agree
from benchmarks.plotting import figure
from benchmarks.result import Bar, Result
from penstock.local.graph_options import Scheduling
from penstock.local.run import LocalRun
from penstock.local.scheduling.scheduler import Scheduler
from penstock.model.clock import SystemClock
from penstock.optimizer.join_order import put_together
from penstock.optimizer.lowering import lower
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.join_trees import Joined, flat, left_deep
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Decision
from penstock.runs.collected_answer import Gathered
from penstock.runs.run_options import Adaptation

WITHIN = 10  # windows in which a plan has to be good again
PART = 0.8  # of the rate of the best plan
FEW, MANY = 400_000, 100  # keys, of which each tuple has one: the more, the fewer match
NAMES = ["r", "s", "t"]
PLANS: dict[str, Joined] = {
    "r: s t": flat(3, ((1, 2), (0, 2), (0, 1))),
    "r: t s": flat(3, ((2, 1), (0, 2), (0, 1))),
    "((r s) t)": left_deep((0, 1, 2)),
    "((r t) s)": left_deep((0, 2, 1)),
}
BEFORE = "((r s) t)"  # the best one, at first


@dataclass(frozen=True)
class Drifting:
    """So many tuples of each stream a second, and windows of a second."""

    windows: int = 60
    rate: int = 6_000
    slow: int = 3_000
    batches: int = 4  # a second

    @cached_property
    def query(self) -> QueryPlan:
        db = ps.connect()
        for seed, name in enumerate(NAMES):
            db.stream(name, self._stream(seed, name), progress=ps.progress("ts", delay="0 seconds"))
        windows = ", ".join(f"{name} [RANGE 1 SECOND, WA ts]" for name in NAMES)
        found = db.sql(f"SELECT r.n, s.n, t.n FROM {windows} WHERE r.a = s.a AND r.b = t.b")
        assert isinstance(found, ps.Query)
        return found.plan

    def _stream(self, seed: int, name: str) -> list[pa.RecordBatch]:
        generator = np.random.default_rng(seed)
        rate = self.rate if name == "r" else self.slow
        rows = rate * self.windows
        due = np.sort(generator.integers(0, self.windows * 1_000_000, rows))
        late = due >= self.windows * 500_000
        columns = {
            column: generator.integers(0, 1 << 40, rows) % np.where(late, after, before)
            for column, before, after in (("a", FEW, MANY), ("b", MANY, FEW))
        }
        given = {key: pa.array(value) for key, value in columns.items()}
        given |= {
            "n": pa.array(np.arange(rows)),
            "ts": pa.array(due).cast(pa.timestamp("us", "UTC")),
        }
        return pa.table(given).to_batches(max_chunksize=max(1, rate // self.batches))

    def run(self, tree: Joined, adaptation: Adaptation) -> Measured:
        """The query as a tree, from the beginning on; the time of every window."""

        def change(node: Node) -> Node:
            node = with_inputs(node, change)
            return put_together(node, tree) if isinstance(node, Join) else node

        plan = lower(with_inputs(self.query, change), Settings())
        gathered = Gathered(plan.query)
        run = LocalRun(
            [plan], [gathered], SystemClock(), scheduling=Scheduling(adaptation=adaptation)
        )
        times = np.zeros(self.windows)
        begun = process_time()
        changes: list[tuple[int, Decision]] = []
        for _ in Scheduler(run).steps():
            done, window = process_time(), self._window(run)
            times[window] += done - begun
            while len(changes) < len(run.adapting.decisions):
                changes.append((window, run.adapting.decisions[len(changes)]))
            begun = done
        rates = np.where(times > 0, (self.rate + 2 * self.slow) / np.maximum(times, 1e-9), 0)
        return Measured(rates, gathered.answer(0).table, changes)

    def _window(self, run: LocalRun) -> int:
        """The one that the slowest stream is in."""
        lows = [scan.ingest.low for scan in run.scans]
        low = min(each for each in lows) if lows else 0
        return int(min(max(0, low // 1_000_000 if low > 0 else 0), self.windows - 1))


@dataclass(frozen=True)
class Measured:
    """Tuples a second, window by window."""

    rates: np.ndarray
    table: pa.Table
    changes: list[tuple[int, Decision]]


def run(quick: bool) -> Result:
    drifting = Drifting(windows=12, rate=1_000, slow=500) if quick else Drifting()
    never = Adaptation(on=False)
    adapting = Adaptation(rows=1_000) if quick else Adaptation()
    rounds = range(1 if quick else 3)
    runs = [
        {name: drifting.run(tree, never) for name, tree in PLANS.items()}
        | {"adaptive": drifting.run(PLANS[BEFORE], adapting)}
        for _ in rounds
    ]
    fixed = {name: min((each[name] for each in runs), key=_seconds) for name in PLANS}
    adaptive = min((each["adaptive"] for each in runs), key=_seconds)
    everybody = fixed | {"adaptive": adaptive}
    agreed = agree({name: each.table for name, each in everybody.items()})
    half = drifting.windows // 2
    best = np.max([_smooth(each.rates) for each in fixed.values()], axis=0)
    parts = _smooth(adaptive.rates) / best
    regained = next((n - half for n in range(half + 1, drifting.windows) if parts[n] >= PART), None)
    after = parts[half + WITHIN :] if not quick else parts[-1:]
    rows = [
        {
            "plan": name,
            "before, tuples/s": float(np.median(each.rates[1 : half - 1])),
            "after, tuples/s": float(np.median(each.rates[half + min(WITHIN, half - 2) :])),
            "seconds": _seconds(each) * (drifting.rate + 2 * drifting.slow),
            "changes": len(each.changes),
        }
        for name, each in everybody.items()
    ]
    for window, change in adaptive.changes:
        print(f"window {window}: {change}")
    bars = [
        Bar("windows until 80 % of the best rate", WITHIN, float(regained or 1e9), unit=""),
        Bar("best rate / adaptive rate, from then on", 1 / PART, 1 / float(np.median(after))),
    ]

    def plot(path: Path) -> None:
        with figure(path, "A drift that inverts selectivities") as (axis,):
            for name, each in fixed.items():
                axis.plot(each.rates / 1000, label=name, alpha=0.7, linewidth=1)
            axis.plot(adaptive.rates / 1000, label="adaptive", color="black", linewidth=2)
            axis.axvline(half, color="0.5", linestyle=":")
            for window, _ in adaptive.changes:
                axis.axvline(window, color="black", linestyle="--", linewidth=0.7)
            axis.set(xlabel="window of a second", ylabel="thousand tuples a second", ylim=(0, None))
            axis.legend()

    return Result("adaptation", "Plans that change while they run", rows, agreed, bars, plot)


def _seconds(run: Measured) -> float:
    """For a tuple of every window."""
    return float((1 / run.rates[run.rates > 0]).sum())


def _smooth(rates: np.ndarray) -> np.ndarray:
    """Over three windows, because a batch falls into one or the other."""
    return np.convolve(np.pad(rates, 1, mode="edge"), np.ones(3) / 3, mode="valid")
