"""Plans of joins of several streams: what was expected of each, and what it takes.

The plan that is chosen is held against all others: trees of operators for two inputs or more, and
orders in which the tuples of every stream look for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.measuring import agree, all_times
from benchmarks.plotting import figure
from benchmarks.result import Bar, Result
from penstock.local.graph_options import Scheduling
from penstock.local.scheduling import scheduler
from penstock.model.clock import SystemClock
from penstock.optimizer.join_costs import JoinCosts
from penstock.optimizer.join_order import chosen, put_together
from penstock.optimizer.join_search import Search
from penstock.optimizer.join_statistics import statistics_of
from penstock.optimizer.lowering import lower
from penstock.optimizer.rewrite import Settings, with_inputs
from penstock.plan.join_properties import Equality, conditions_of
from penstock.plan.join_trees import Joined, JoinTree, flat, orders_of
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.node import Node
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.run_options import Adaptation

SECONDS = 20
_AS_GIVEN = Scheduling(adaptation=Adaptation(on=False))  # every plan is kept to its end


@dataclass(frozen=True)
class StreamOf:
    """Tuples a second, and how many keys each column has; `delay` in seconds."""

    rate: int
    keys: dict[str, int]
    delay: float = 0.0
    at_once: float = 2.0  # seconds

    def batches(self, seed: int, seconds: int) -> list[pa.RecordBatch]:
        generator = np.random.default_rng(seed)
        rows = self.rate * seconds
        due = np.sort(generator.integers(0, seconds * 1_000_000, rows))
        came = due + generator.integers(0, int(self.delay * 1e6) + 1, rows)
        columns = {name: pa.array(generator.integers(0, k, rows)) for name, k in self.keys.items()}
        columns["n"] = pa.array(np.arange(rows))
        ts = pa.array(due[np.argsort(came, kind="stable")])
        columns["ts"] = ts.cast(pa.timestamp("us", tz="UTC"))
        return pa.table(columns).to_batches(max_chunksize=max(1, int(self.rate * self.at_once)))


@dataclass(frozen=True)
class JoinOrders:
    name: str
    streams: dict[str, StreamOf]
    windows: dict[str, float]
    where: str
    seconds: int = SECONDS

    @cached_property
    def query(self) -> QueryPlan:
        db = ps.connect()
        for seed, (name, stream) in enumerate(self.streams.items()):
            promise = ps.progress("ts", delay=f"{stream.delay} seconds")
            db.stream(name, stream.batches(seed, self.seconds), progress=promise)
        source = ", ".join(f"{name} [RANGE {w} SECONDS, WA ts]" for name, w in self.windows.items())
        columns = ", ".join(f"{name}.n" for name in self.streams)
        query = db.sql(f"SELECT {columns} FROM {source} WHERE {self.where}")
        assert isinstance(query, ps.Query)
        return query.plan

    @cached_property
    def join(self) -> Join:
        return next(node for node in self.query.walk() if isinstance(node, Join))

    @cached_property
    def search(self) -> Search:
        return Search(JoinCosts(self.join, statistics_of(self.join)))

    def run(self, tree: Joined) -> pa.Table:
        def change(node: Node) -> Node:
            node = with_inputs(node, change)
            return put_together(node, tree) if isinstance(node, Join) else node

        plan = lower(with_inputs(self.query, change), Settings())
        return scheduler.answer(plan, SystemClock(), scheduling=_AS_GIVEN).table

    def plans(self) -> dict[str, Joined]:
        """All trees, each with the best orders; and one operator for all inputs with all orders in
        which the tuples of each can look for the others.  Nothing looks for tuples that it has no
        key in common with."""
        names = list(self.streams)
        found: list[JoinTree] = [each.tree for each in self.search.every()]
        sizes = range(len(names))
        several = [[o for o in orders_of(len(names), n) if self._meets(n, o)] for n in sizes]
        found += [flat(len(names), probes) for probes in product(*several)]
        found.append(self.search.containing().tree)
        kept = [tree for tree in found if isinstance(tree, Joined) and self._is_connected(tree)]
        return {self._name(tree): tree for tree in kept}

    def _name(self, tree: Joined) -> str:
        """Plans of one name are the same."""
        names = list(self.streams)
        if not tree.is_flat:
            return tree.named(names)
        return "|".join(
            f"{names[own]}>{''.join(names[n] for n in order)}"
            for own, order in enumerate(tree.probes)
        )

    def _meets(self, own: int, order: Sequence[int]) -> bool:
        return self._finds(frozenset([own]), [frozenset([each]) for each in order])

    def _finds(self, bound: frozenset[int], others: Sequence[frozenset[int]]) -> bool:
        for new in others:
            if not any(each.inputs & bound and each.inputs & new for each in self.equalities):
                return False
            bound |= new
        return True

    def _is_connected(self, tree: JoinTree) -> bool:
        if not isinstance(tree, Joined):
            return True
        sets = [frozenset(part.leaves) for part in tree.parts]
        asked = zip(sets, tree.probes, strict=True)
        if not all(self._finds(own, [sets[n] for n in order]) for own, order in asked):
            return False
        return all(map(self._is_connected, tree.parts))

    @cached_property
    def equalities(self) -> tuple[Equality, ...]:
        return conditions_of(self.join).equalities


ALIKE = JoinOrders(
    "three streams, one key",
    {"r": StreamOf(600, {"k": 60}), "s": StreamOf(600, {"k": 60}), "t": StreamOf(30, {"k": 60})},
    {"r": 1, "s": 1, "t": 1},
    "r.k = s.k AND s.k = t.k",
)
TRIANGLE = JoinOrders(
    "r(ab), s(bc), t(ac)",
    {
        "r": StreamOf(400, {"a": 20, "b": 100}),
        "s": StreamOf(400, {"b": 100, "c": 500}),
        "t": StreamOf(400, {"a": 20, "c": 500}),
    },
    {"r": 2, "s": 2, "t": 2},
    "r.b = s.b AND s.c = t.c AND r.a = t.a",
)
SLOW_PAIR = JoinOrders(
    "two slow streams and a fast one",
    {
        "r": StreamOf(60, {"k": 50, "j": 50}),
        "s": StreamOf(30, {"k": 50, "i": 50}),
        "t": StreamOf(10_000, {"i": 50, "j": 50}),
    },
    {"r": 10, "s": 10, "t": 1},
    "r.k = s.k AND s.i = t.i AND r.j = t.j",
)
CHAIN = JoinOrders(
    "a chain of four streams",
    {
        "r": StreamOf(800, {"a": 30}),
        "s": StreamOf(800, {"a": 30, "b": 600}),
        "t": StreamOf(800, {"b": 600, "c": 1000}),
        "u": StreamOf(800, {"c": 1000}),
    },
    {"r": 1, "s": 1, "t": 1, "u": 1},
    "r.a = s.a AND s.b = t.b AND t.c = u.c",
)
SKEWED = JoinOrders(
    "four streams, skewed",
    {
        "r": StreamOf(1000, {"a": 40}),
        "s": StreamOf(200, {"a": 40, "b": 20}),
        "t": StreamOf(50, {"b": 20, "c": 20000}),
        "u": StreamOf(400, {"c": 20000}),
    },
    {"r": 1, "s": 2, "t": 4, "u": 1},
    "r.a = s.a AND s.b = t.b AND t.c = u.c",
)
QUERIES = (ALIKE, TRIANGLE, SLOW_PAIR, CHAIN, SKEWED)
# no number of the costs, and no step that they tell apart, was chosen with these in view
RISING = JoinOrders(
    "a chain of four streams, each faster",
    {
        "r": StreamOf(60, {"a": 10}),
        "s": StreamOf(180, {"a": 10, "b": 25}),
        "t": StreamOf(540, {"b": 25, "c": 5000}),
        "u": StreamOf(1600, {"c": 5000}),
    },
    {"r": 2, "s": 2, "t": 1, "u": 1},
    "r.a = s.a AND s.b = t.b AND t.c = u.c",
)
LATE = JoinOrders(
    "three streams, one of them late",
    {
        "r": StreamOf(800, {"a": 50, "c": 1500}),
        "s": StreamOf(400, {"a": 50, "b": 15}, delay=4.0),
        "t": StreamOf(200, {"b": 15, "c": 1500}, at_once=0.5),
    },
    {"r": 3, "s": 2, "t": 4},
    "r.a = s.a AND s.b = t.b AND t.c = r.c",
)
RING = JoinOrders(
    "a ring of three streams, one of them fast",
    {
        "r": StreamOf(200, {"a": 40, "c": 10}),
        "s": StreamOf(900, {"a": 40, "b": 300}),
        "t": StreamOf(2500, {"b": 300, "c": 10}),
    },
    {"r": 1, "s": 2, "t": 1},
    "r.a = s.a AND s.b = t.b AND t.c = r.c",
)
UNSEEN = (RISING, LATE, RING)


@dataclass(frozen=True)
class MeasuredPlan:
    """The seconds that were expected of a plan, and those that it took, turn by turn."""

    name: str
    tree: Joined
    expected: float
    times: tuple[float, ...]
    results: int

    @property
    def best(self) -> float:
        return min(self.times)


def kendall(
    one: Sequence[float],
    other: Sequence[float],
    counts: Callable[[int, int], bool] = lambda _, __: True,
) -> float:
    """Kendall's tau of two rankings, over all pairs or over those that count; a pair that is a tie
    in one of them agrees with nothing.

    >>> kendall([1, 2, 3], [10, 30, 20])
    0.3333333333333333
    """
    agreeing, pairs = 0, 0
    for i, j in combinations(range(len(one)), 2):
        if counts(i, j):
            pairs += 1
            product_ = (one[i] - one[j]) * (other[i] - other[j])
            agreeing += int(product_ > 0) - int(product_ < 0)
    return agreeing / pairs if pairs else 1.0


def differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether it is no chance which of two is faster: a sign test over the turns in which both were
    measured, at 5 %.

    >>> differ([1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]), differ([1, 3, 1, 3, 1, 1], [2] * 6)
    (True, False)
    """
    turns = len(one)
    wins = sum(x < y for x, y in zip(one, other, strict=True))
    extreme = max(wins, turns - wins)
    return 2 * sum(comb(turns, k) for k in range(extreme, turns + 1)) / 2**turns <= 0.05


def measure(query: JoinOrders, rounds: int = 1) -> list[MeasuredPlan]:
    """Every plan, in turns."""
    plans = query.plans()
    times, answers = all_times(
        {name: lambda tree=tree: query.run(tree) for name, tree in plans.items()}, rounds
    )
    results = agree(answers)
    return [
        MeasuredPlan(
            name,
            tree,
            query.search.time(tree) * query.seconds * 1e6 / 1e9,
            tuple(times[name]),
            results[name],
        )
        for name, tree in plans.items()
    ]


def ranked(found: Sequence[MeasuredPlan]) -> tuple[float, float, float]:
    """Kendall's tau of what was expected and measured: over all pairs of plans, and over those that
    measuring can tell apart; and of one half of the turns and the other, which is as well as
    anything can agree with these times."""
    expected, best = [each.expected for each in found], [each.best for each in found]
    told = kendall(expected, best, lambda i, j: differ(found[i].times, found[j].times))
    halves = [[min(each.times[k::2] or each.times) for each in found] for k in (0, 1)]
    return kendall(expected, best), told, kendall(*halves)


def run(quick: bool) -> Result:
    """The bars are about the four skewed streams, and about each query."""
    rows, measured, agreed = [], {}, {}
    bars = []
    for query in (_shorter(each) for each in QUERIES[:2]) if quick else QUERIES + UNSEEN:
        found = measure(query, rounds=1 if quick else 9)
        measured[query.name] = found
        best = chosen(query.join, Settings())
        taken = next(each.best for each in found if each.tree == best)
        fastest, slowest = (some(each.best for each in found) for some in (min, max))
        tau, told, halves = ranked(found)
        agreed[query.name] = found[0].results
        rows.append(
            {
                "query": query.name,
                "plans": len(found),
                "chosen": best.named(list(query.streams)),
                "chosen, s": taken,
                "best, s": fastest,
                "worst, s": slowest,
                "Kendall's tau": tau,
                "of plans that differ": told,
                "of half and half": halves,
            }
        )
        if query.name == SKEWED.name:
            bars.append(Bar("chosen plan / best plan", 1.2, taken / fastest))
            bars.append(Bar("chosen plan / worst plan", 1 / 3, taken / slowest))
        bars.append(Bar(f"1 - tau, {query.name}", 0.3, 1 - tau, unit=""))

    def plot(path: Path) -> None:
        title = "Plans of joins: expected and measured seconds, from the best turn to the median"
        with figure(path, title, panels=len(measured), width=26) as axes:
            for axis, (name, found) in zip(axes, measured.items(), strict=True):
                best = [each.best for each in found]
                above = [float(np.median(each.times)) - each.best for each in found]
                noise = [[0.0] * len(found), above]
                axis.errorbar([each.expected for each in found], best, noise, fmt="o", ms=3, lw=0.7)
                tau, _, halves = ranked(found)
                axis.set(title=f"{name}\ntau {tau:.2f}, of half and half {halves:.2f}")
                axis.set(xlabel="expected", ylabel="measured", xscale="log", yscale="log")
                axis.title.set_fontsize(8)

    title = "Plans of joins of several streams: the one that is chosen beside all others"
    return Result("join_orders", title, rows, agreed, bars, plot)


def _shorter(query: JoinOrders) -> JoinOrders:
    return replace(query, seconds=6)
