"""The ordered window joins of the Nile paper on a simulated clock, beside the paper's formulas.

Two streams arrive in order, each at its own rate; the join is one server.  Looking at a tuple of
the other stream's window takes a fixed time c, as in section 4.1 of the paper; everything else
takes no time.  The operators are those that queries run: only the clock is not real.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import plotting
from benchmarks.result import Bar, Row
from penstock.kernel.batch import Batch
from penstock.kernel.joins.ordered_joins import AdaptiveJoin, FilterOrderJoin, SyncFilterJoin
from penstock.kernel.operator import Item, Progress
from penstock.plan.nodes.join import Join

Agreed = dict[str, int]

SECOND = 1_000_000  # ticks; the timer has nanoseconds
NAMES = ("Sync-Filter", "Filter-Order", "Adaptive")
COLOURS = {"Sync-Filter": "C3", "Filter-Order": "C2", "Adaptive": "C0"}
MARKERS = {"Sync-Filter": "D", "Filter-Order": "s", "Adaptive": "^"}
STREAMS = ("slow", "fast")
BY: dict[str, Callable[[Setting], float]] = {  # what is varied
    "c ms": lambda setting: setting.cost * 1000,
    "λ1": lambda setting: setting.rates[0],
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of the paper: c in seconds, the window |w| in seconds, and both rates in
    tuples a second, the slow stream first."""

    cost: float
    window: float
    rates: tuple[float, float]

    @property
    def load(self) -> float:
        """c·|w|·λ1·λ2."""
        return self.cost * self.window * self.rates[0] * self.rates[1]

    @property
    def sync_filter(self) -> float:
        """Equation 3: the mean response time of a tuple of the fast stream, in seconds."""
        slow, fast = self.rates
        return self.filter_order + (fast / slow + 1) / 2 * self.cost * self.window * slow

    @property
    def filter_order(self) -> float:
        """Equation 5."""
        slow, fast = self.rates
        return 1 / slow - (fast / slow - 1) / (2 * fast)

    @property
    def improvement(self) -> float:
        """Equation 7: by what part Filter-Order answers sooner than Sync-Filter."""
        return self.load / (1 + self.load)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When tuples come, in ticks: times of the slow and of the fast stream, without equal ones."""

    times: tuple[Any, Any]

    @staticmethod
    def regular(setting: Setting, seconds: float) -> Arrivals:
        """As the analysis has it: at equal distances, the fast stream beginning just after the slow
        one."""
        slow, fast = (np.arange(0, seconds, 1 / rate) * SECOND for rate in setting.rates)
        return Arrivals((slow.astype(np.int64), fast.astype(np.int64) + 1))

    @staticmethod
    def exponential(setting: Setting, seconds: float, seed: int) -> Arrivals:
        """As the experiments have it."""
        generator = np.random.default_rng(seed)
        times = []
        for port, rate in enumerate(setting.rates):
            gaps = generator.exponential(SECOND / rate, int(seconds * rate * 1.5) + 20)
            found = np.cumsum(gaps)
            found = found[found < seconds * SECOND].astype(np.int64) * 2 + port
            times.append(np.unique(found) // 2 * 2 + port)
        return Arrivals((times[0] // 2, times[1] // 2))


@dataclass
class Outcome:
    """Mean seconds from the arrival of a tuple of the fast stream to the end of its processing, the
    times of the results as they left, and how many rows waited at most."""

    response: float
    results: list[tuple[int, int]]
    waiting: int
    switches: int = 0


class Server:
    """A join that does one thing after the other, each taking its time."""

    def __init__(self, name: str, setting: Setting) -> None:
        self._setting = setting
        self.now = 0.0  # seconds
        self.operator = _made(name, _join_of(setting.window), lambda: int(self.now * 1e9))
        self._joined: tuple[list[int], list[int]] = ([], [])  # the times of tuples, in order
        self.processed: dict[int, float] = {}  # of the fast stream: when, by their times
        self.triggered: dict[int, float] = {}
        self._not_yet: list[int] = []
        self._bounds = [-1, -1]
        self.results: list[tuple[int, int]] = []
        self.waiting = 0
        join = self.operator.join
        self._at_once, join.on_batch = join.on_batch, self._slowly

    def _slowly(self, port: int, batch: Batch) -> list[Item]:
        """Every tuple is joined with the window of the other stream, one after the other."""
        window = int(self._setting.window * SECOND)
        for tick in batch.rows.column(0).to_pylist():
            other, own = self._joined[1 - port], self._joined[port]
            self.now += self._setting.cost * (len(other) - bisect_left(other, tick - window))
            if port == 1:
                self.processed[tick] = self.now
            own.append(tick)
        found: list[Item] = self._at_once(port, batch)
        return found

    def take(self, port: int, tick: int) -> None:
        """A tuple comes, and its stream has come as far as it: that is told first."""
        self.now = max(self.now, tick / SECOND)
        name = f"{STREAMS[port]}.t"
        self._bounds[port] = tick
        complete, still = min(self._bounds), []
        for each in self._not_yet:
            if each <= complete:
                self.triggered[each] = self.now
            else:
                still.append(each)
        self._not_yet = still
        self._left(self.operator.on_progress(port, Progress({name: tick})))
        if port == 1:
            self._not_yet.append(tick)
        columns = [pa.array([tick]), pa.array([tick * 2_654_435_761 >> 7 & 31])]
        rows = pa.RecordBatch.from_arrays(columns, [name, f"{STREAMS[port]}.k"])
        self._left(self.operator.on_batch(port, Batch(rows)))
        waiting = sum(map(len, self.operator.waiting)) + len(self.operator.held)
        self.waiting = max(self.waiting, waiting)

    def _left(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Batch):
                times = (item.rows.column(f"{each}.t").to_pylist() for each in STREAMS)
                self.results += zip(*times, strict=True)


def simulate(name: str, setting: Setting, arrivals: Arrivals, warm_up: float) -> Outcome:
    """What comes in the first seconds, of `warm_up`, does not count."""
    server = Server(name, setting)
    slow, fast = arrivals.times
    ports = np.concatenate([np.zeros(len(slow), np.int64), np.ones(len(fast), np.int64)])
    times = np.concatenate([slow, fast])
    for place in np.argsort(times, kind="stable"):
        server.take(int(ports[place]), int(times[place]))
    responses = [
        max(server.processed[tick], done) - tick / SECOND
        for tick, done in server.triggered.items()
        if tick >= warm_up * SECOND and tick in server.processed
    ]
    operator = server.operator
    switches = sum(operator.switches.values()) if isinstance(operator, AdaptiveJoin) else 0
    response = float(np.mean(responses))
    return Outcome(response, server.results, server.waiting, switches)


def compared(
    by: str, settings: Sequence[Setting], slow_tuples: int, seed: int
) -> tuple[list[Row], Agreed]:
    """All joins in every setting, with regular arrivals and with exponential ones; until so many
    tuples of the slow stream have come after a window has filled.  Times are in seconds, and
    `waiting` has how many rows waited at most, in the order of the joins."""
    rows: list[Row] = []
    agreed: Agreed = {}
    for setting in settings:
        seconds = setting.window + slow_tuples / setting.rates[0]
        several = {
            "regular": Arrivals.regular(setting, seconds),
            "exponential": Arrivals.exponential(setting, seconds, seed),
        }
        for kind, arrivals in several.items():
            found = {name: simulate(name, setting, arrivals, setting.window) for name in NAMES}
            results = {name: outcome.results for name, outcome in found.items()}
            if any(sorted(each) != sorted(results["Sync-Filter"]) for each in results.values()):
                raise AssertionError("the joins have different results")
            agreed |= {f"{setting} {kind}: {name}": len(each) for name, each in results.items()}
            rows.append(_row(setting, kind, by, found))
    return rows, agreed


def _row(setting: Setting, kind: str, by: str, found: dict[str, Outcome]) -> Row:
    sync, order = found["Sync-Filter"].response, found["Filter-Order"].response
    return {
        "arrivals": kind,
        by: BY[by](setting),
        "load": setting.load,
        "eq. 3": setting.sync_filter,
        "eq. 5": setting.filter_order,
        **{name: outcome.response for name, outcome in found.items()},
        "eq. 7 %": 100 * setting.improvement,
        "sooner %": 100 * (sync - order) / sync,
        "waiting": "/".join(str(outcome.waiting) for outcome in found.values()),
        "switches": found["Adaptive"].switches,
    }


def bars(rows: list[Row], what: str) -> list[Bar]:
    """Equation 7 holds, and adapting costs nothing; at loads from 0.05 to 0.4 it is open which way
    is taken."""
    off = max(abs(row["sooner %"] - row["eq. 7 %"]) for row in rows)
    worse, better = [], []
    for row in rows:
        two = [row[name] for name in NAMES[:2]]
        worse.append(row["Adaptive"] / max(two))
        if not 0.05 < row["load"] < 0.4:
            better.append(row["Adaptive"] / min(two))
    return [
        Bar(f"Filter-Order against Sync-Filter, off equation 7, by {what}", 15, off, "points"),
        Bar(f"Adaptive against the worse of both, by {what}", 1.05, max(worse)),
        Bar(f"Adaptive against the better of both, far from α, by {what}", 1.1, max(better)),
    ]


def plot(rows: list[Row], by: str, label: str, title: str, scale: str, path: Path) -> None:
    with plotting.figure(path, title, panels=3, width=15) as axes:
        for axis, kind in zip(axes[:2], ("regular", "exponential"), strict=True):
            chosen = [row for row in rows if row["arrivals"] == kind]
            values = [row[by] for row in chosen]
            for name in NAMES:
                drawn = {"color": COLOURS[name], "marker": MARKERS[name], "label": name}
                axis.plot(values, [row[name] for row in chosen], linestyle="", **drawn)
            axis.plot(values, [row["eq. 3"] for row in chosen], color="C3", label="equation 3")
            axis.plot(values, [row["eq. 5"] for row in chosen], color="C2", label="equation 5")
            axis.set(title=f"{kind} arrivals", xscale="log", yscale=scale, xlabel=label)
        axes[0].set_ylabel("mean response time (s)")
        axes[0].legend()
        for kind, marker in (("regular", "o"), ("exponential", "x")):
            chosen = [row for row in rows if row["arrivals"] == kind]
            values, sooner = [row[by] for row in chosen], [row["sooner %"] for row in chosen]
            axes[2].plot(values, sooner, linestyle="", marker=marker, color="C2", label=kind)
        values = [row[by] for row in rows if row["arrivals"] == "regular"]
        expected = [row["eq. 7 %"] for row in rows if row["arrivals"] == "regular"]
        axes[2].plot(values, expected, color="0.4", label="equation 7")
        axes[2].set(title="Filter-Order answers sooner by (%)", xscale="log", xlabel=label)
        axes[2].legend()


def _made(name: str, node: Join, timer: Callable[[], int]) -> Any:
    match name:
        case "Sync-Filter":
            return SyncFilterJoin(node)
        case "Filter-Order":
            return FilterOrderJoin(node)
    return AdaptiveJoin(node, timer=timer)


@cache
def _join_of(window: float) -> Join:
    database = ps.connect()
    for name in STREAMS:
        database.stream(
            name, [], schema="t BIGINT, k BIGINT", progress=ps.progress("t", ordered=True)
        )
    windows = ", ".join(f"{name} [RANGE {int(window * SECOND)}, WA t]" for name in STREAMS)
    query = database.sql(f"SELECT slow.t, fast.t FROM {windows} WHERE slow.k = fast.k")
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, Join))
