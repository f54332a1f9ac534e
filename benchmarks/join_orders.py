"""Plans of joins of several streams: what was expected of each, and what it takes.

The plan that is chosen is held against all others: trees of operators for two inputs or more, and
orders in which the tuples of every stream look for the others.

`python -m benchmarks.join_orders calibrate` measures penstock/optimizer/dataflow/work.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.measuring import agree, measured
from benchmarks.plotting import figure
from benchmarks.result import Bar, Result
from penstock.engine import local
from penstock.model.clock import SystemClock
from penstock.optimizer.dataflow.join_costs import JoinCosts
from penstock.optimizer.dataflow.join_statistics import statistics_of
from penstock.optimizer.dataflow.search import Search
from penstock.optimizer.dataflow.work import Work
from penstock.optimizer.logical.arrange_joins import put_together
from penstock.optimizer.physical.lower import lower
from penstock.optimizer.rewrite import with_inputs
from penstock.optimizer.settings import Settings
from penstock.plan.equalities import Equality, conditions_of
from penstock.plan.join_trees.join_tree import Joined, JoinTree, flat, trees_of
from penstock.plan.joins import Join
from penstock.plan.node import Node
from penstock.plan.query import QueryPlan

SECONDS = 20
APART = 0.1  # of their times that plans have to be apart for anybody to tell which is faster


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
        return local.answer(plan, SystemClock()).table

    def plans(self) -> dict[str, Joined]:
        """All trees, each with the best orders, and one operator for all inputs with every order
        of the inputs."""
        names = list(self.streams)
        found: dict[str, Joined] = {}
        for tree in trees_of(range(len(names))):
            made = self._with_best_orders(tree)
            assert isinstance(made, Joined)
            found[made.named(names)] = made
        for order in permutations(range(len(names))):
            probes = tuple(tuple(n for n in order if n != own) for own in range(len(names)))
            found["flat " + "".join(names[n] for n in order)] = flat(len(names), probes)
        best = self.search.containing().tree
        kept = {name: tree for name, tree in found.items() if self._is_connected(tree)}
        return kept | {best.named(names): best}

    def _is_connected(self, tree: JoinTree) -> bool:
        """Whether nothing looks for tuples that it has no key in common with."""
        if not isinstance(tree, Joined):
            return True
        sets = [frozenset(part.leaves) for part in tree.parts]
        for own, order in enumerate(tree.probes):
            bound = sets[own]
            for new in order:
                if not any(e.inputs & bound and e.inputs & sets[new] for e in self.equalities):
                    return False
                bound |= sets[new]
        return all(map(self._is_connected, tree.parts))

    @cached_property
    def equalities(self) -> tuple[Equality, ...]:
        return conditions_of(self.join).equalities

    def _with_best_orders(self, tree: JoinTree) -> JoinTree:
        if not isinstance(tree, Joined):
            return tree
        return self.search.completed(tuple(map(self._with_best_orders, tree.parts))).tree


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
        "r": StreamOf(20, {"k": 10, "j": 50}),
        "s": StreamOf(20, {"k": 10, "i": 50}),
        "t": StreamOf(20_000, {"i": 50, "j": 50}),
    },
    {"r": 10, "s": 10, "t": 0.02},
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


def kendall(one: Sequence[float], other: Sequence[float], apart: float = 0.0) -> float:
    """Kendall's tau-b of two rankings; pairs whose times of the second are not further apart than
    a part of them are left out, because nobody can tell which is faster.

    >>> kendall([1, 2, 3], [10, 30, 20])
    0.3333333333333333
    """
    agreeing, pairs = 0, 0
    for (x, y), (v, w) in combinations(zip(one, other, strict=True), 2):
        if abs(y - w) <= apart * min(y, w):
            continue
        pairs += 1
        agreeing += 1 if (x - v) * (y - w) > 0 else -1 if (x - v) * (y - w) < 0 else 0
    return agreeing / pairs if pairs else 1.0


def measure(
    query: JoinOrders, rounds: int = 1, most: int | None = None
) -> Iterator[tuple[str, Joined, float, float]]:
    """Every plan, or `most` of them, the seconds that were expected of it, and those it took."""
    plans = query.plans()
    if most is not None:
        several = sorted(plans, key=lambda name: query.search.time(plans[name]))
        chosen = np.unique(np.linspace(0, len(several) - 1, most).astype(int))
        plans = {several[place]: plans[several[place]] for place in chosen}
    times, answers = measured(
        {name: lambda tree=tree: query.run(tree) for name, tree in plans.items()}, rounds
    )
    agree(answers)
    for name, tree in plans.items():
        expected = query.search.time(tree) * query.seconds * 1e6 / 1e9
        yield name, tree, expected, times[name]


def run(quick: bool) -> Result:
    """The bars are about the four skewed streams, and about all five queries together."""
    rows, points, agreed = [], {}, {}
    bars = []
    for query in (_shorter(each) for each in QUERIES[:2]) if quick else QUERIES:
        found = list(measure(query, rounds=1 if quick else 3))
        points[query.name] = [(expected, taken) for _, _, expected, taken in found]
        best = query.search.containing().tree
        chosen = next(taken for _, tree, _, taken in found if tree == best)
        times = [taken for *_, taken in found]
        ranked = kendall([expected for _, _, expected, _ in found], times, APART)
        agreed[query.name] = len(found)
        rows.append(
            {
                "query": query.name,
                "plans": len(found),
                "chosen": best.named(list(query.streams)),
                "chosen, s": chosen,
                "best, s": min(times),
                "worst, s": max(times),
                "Kendall's tau": ranked,
            }
        )
        if query.name == SKEWED.name:
            bars.append(Bar("chosen plan / best plan", 1.2, chosen / min(times)))
            bars.append(Bar("chosen plan / worst plan", 1 / 3, chosen / max(times)))
        bars.append(Bar(f"1 - tau, {query.name}", 0.3, 1 - ranked, unit=""))

    def plot(path: Path) -> None:
        title = "Plans of joins: expected and measured seconds"
        with figure(path, title, panels=len(points), width=16) as axes:
            for axis, (name, several) in zip(axes, points.items(), strict=True):
                expected, taken = zip(*several, strict=True)
                axis.scatter(expected, taken, s=14)
                axis.set(title=name, xlabel="expected", ylabel="measured", xscale="log")
                axis.set_yscale("log")
                axis.title.set_fontsize(8)

    title = "Plans of joins of several streams: the one that is chosen beside all others"
    return Result("join_orders", title, rows, agreed, bars, plot)


def _shorter(query: JoinOrders) -> JoinOrders:
    return replace(query, seconds=6)


def calibrate() -> None:
    """By joins that no bar is about."""
    features, times = [], []
    for seed in range(TRAINING):
        query = random_join(seed)
        for name, tree, expected, taken in measure(query, most=10):
            work = query.search.total(tree) * (query.seconds * 1e6)
            features.append(astuple(work))
            times.append(taken * 1e9)
            print(f"{query.name:36} {name:16} {expected:7.3f} {taken:7.3f}", flush=True)
    for name, value in zip(fields(Work), _fitted(np.array(features), np.array(times)), strict=True):
        print(f"{name.name} {value:,.1f}")


TRAINING = 16  # joins
_SHAPES = (
    "r.a = s.a AND s.a = t.a",
    "r.a = s.a AND r.b = t.b",
    "r.a = s.a AND s.b = t.b AND r.c = t.c",
    "r.a = s.a AND s.b = t.b AND t.c = u.c",
    "r.a = s.a AND r.b = t.b AND r.c = u.c",
    "r.a = s.a AND s.a = t.a AND t.b = u.b",
)


def random_join(seed: int) -> JoinOrders:
    """Streams of any rates, keys, windows and batches, which are joined in any shape."""
    generator = np.random.default_rng(seed)
    where = _SHAPES[seed % len(_SHAPES)]
    names = "rstu" if "u." in where else "rst"
    window = round(float(10 ** generator.uniform(-0.7, 0.7)), 3)
    rates = [int(10 ** generator.uniform(1.7, 3.7)) for _ in names]
    mean = np.exp(np.mean(np.log(rates)))
    keys = {
        column: max(2, int(mean * window * 10 ** generator.uniform(-1.5, 0.7))) for column in "abc"
    }
    streams = {
        name: StreamOf(rate, keys, at_once=float(generator.choice([0.3, 1, 2])))
        for name, rate in zip(names, rates, strict=True)
    }
    return JoinOrders(f"random {seed}", streams, dict.fromkeys(names, window), where, seconds=10)


def _fitted(features: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The numbers, none below zero, by which features make up the times; errors count by how large
    they are beside the time."""
    scaled, ones = features / times[:, None], np.ones(len(times))
    used = list(range(features.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(scaled[:, used], ones, rcond=None)
        if (found >= 0).all():
            whole = np.zeros(features.shape[1])
            whole[used] = found
            return whole
        del used[int(np.argmin(found))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["calibrate"])
    parser.parse_args()
    calibrate()
