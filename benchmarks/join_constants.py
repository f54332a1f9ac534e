"""Measures penstock/optimizer/join_costs.py: plans of random joins are run with a stop-watch
around every step.  What a step takes is a part for every call and a part for everything that it is
done to; these are the numbers that make up its times best.  To keep tuples takes the more the
longer they stay, and what waits for its turn is measured by itself.  No bar is about these joins.

`python -m benchmarks.join_constants`
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import process_time_ns
from types import GeneratorType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.join_orders import JoinOrders, StreamOf
from penstock.kernel.joins import join_side, multiway_join, oa_join, pairing, probes, sorted_run
from penstock.kernel.joins import oa_join as keys
from penstock.kernel.joins import oa_join as results
from penstock.kernel.order import WaitingRows
from penstock.optimizer.join_costs import CELL, Work

TRAINING = 16  # joins
PLANS = 6  # of each
LONGEST = 0.6  # seconds that are expected of a plan, at most

# by what is counted: where it is done
STEPS: dict[str, list[tuple[Any, str]]] = {
    "placed": [
        (sorted_run.SortedRun, "of"),
        (keys.JoinKeys, "of"),
        (probes.WindowIndex, "tuples"),
    ],
    "recorded": [
        (join_side.ManyArrivals, "keep"),
        (join_side.FewArrivals, "keep"),
        (probes.WindowIndex, "record"),
        (join_side.Side, "forget"),
    ],
    "asked": [(probes.Probe, "extend"), (probes.WindowIndex, "find")],
    "looked": [(join_side, "find_many"), (probes, "find_many")],
    "found": [
        (probes.Combinations, "with_partners"),
        (probes, "pieces_of"),
        (probes.CombinationTest, "among"),
        (oa_join, "pairs_of"),
        (pairing.Condition, "among"),
    ],
    "cells": [(results.JoinResults, "pairs"), (multiway_join.MultiwayJoin, "_made")],
}


class StopWatch:
    """Time counts for the innermost step that is at work."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys((*STEPS, "else"), 0)
        self._at_work = ["else"]
        self._since = process_time_ns()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._note()
        self._at_work.append(name)
        try:
            yield
        finally:
            self._note()
            self._at_work.pop()

    def _note(self) -> None:
        now = process_time_ns()
        self.spent[self._at_work[-1]] += now - self._since
        self._since = now

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def timed(*given: Any, **named: Any) -> Any:
            with self.step(name):
                made = work(*given, **named)
            return self._each(name, made) if isinstance(made, GeneratorType) else made

        return timed

    def _each(self, name: str, made: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.step(name):
                one = next(made, self)
            if one is self:
                return
            yield one


def steps_of(query: JoinOrders, plan: Any) -> dict[str, int]:
    """Nanoseconds of every step, in the second of two runs."""
    query.run(plan)
    gc.collect()
    watch, patches = StopWatch(), []
    for name, places in STEPS.items():
        for owner, attribute in places:
            timed: Any = watch.around(name, getattr(owner, attribute))
            if owner is sorted_run.SortedRun:
                timed = staticmethod(timed)
            patches.append(patch.object(owner, attribute, timed))
    for each in patches:
        each.start()
    try:
        with watch.step("else"):
            query.run(plan)
    finally:
        for each in patches:
            each.stop()
    return watch.spent


def calibrate() -> None:
    works: list[Work] = []
    times: list[dict[str, int]] = []
    for seed in range(TRAINING):
        query = random_join(seed)
        for name, plan in some_plans(query).items():
            works.append(query.search.total(plan) * (query.seconds * 1e6))
            times.append(steps_of(query, plan))
            print(f"{query.name:10} {name:28} {sum(times[-1].values()) / 1e9:7.3f}", flush=True)
    batches = np.array([each.batches for each in works])
    calls = np.array([each.calls for each in works])
    of_calls = 0.0
    for step in STEPS:
        counted = ("recorded", "merged") if step == "recorded" else (step,)
        counts = [[getattr(each, name) for each in works] for name in counted]
        spent = np.array([each[step] for each in times], np.float64)
        used = spent > 0
        by = batches if step in ("placed", "recorded", "cells") else calls
        a_call, *each_one = fitted(np.array([by, *counts]).T[used], spent[used])
        of_calls += a_call
        for name, value in zip(counted, each_one, strict=True):
            print(f"{name} {value:,.1f}, and {a_call:,.0f} a call")
    rest = np.array([each["else"] for each in times], np.float64)
    a_batch, a_call = fitted(np.array([batches, calls]).T, rest)
    print(f"batches {a_batch:,.0f}, calls {a_call:,.0f}, and {of_calls:,.0f} in steps")
    print("waited {:,.1f}, and {:,.0f} a release".format(*waiting()))


def waiting(columns: int = 4, turns: int = 50) -> tuple[float, float]:
    """Nanoseconds of a row that waits for its turn among others, without its cells; and of letting
    some go."""
    features, spent = [], []
    for size in (100, 1_000, 10_000):
        ticks = np.arange(size * turns) + np.random.default_rng(1).integers(0, size, size * turns)
        rows = pa.RecordBatch.from_arrays([pa.array(ticks)] * columns, list("abcd")[:columns])
        best = float("inf")
        for _ in range(3):
            waits, begin = WaitingRows(), process_time_ns()
            for at in range(0, len(ticks), size):
                waits.add(rows.slice(at, size), ticks[at : at + size])
                waits.take(at)
            best = min(best, process_time_ns() - begin)
        features.append([len(ticks), turns])
        spent.append(best - 2 * CELL * columns * len(ticks))
    a_row, a_release = fitted(np.array(features, np.float64), np.array(spent, np.float64))
    return float(a_row), float(a_release)


def some_plans(query: JoinOrders) -> dict[str, Any]:
    """From the best to the worst, but for those that take very long."""
    plans = query.plans()
    expected = {name: query.search.time(plan) * query.seconds / 1e3 for name, plan in plans.items()}
    several = sorted((name for name in plans if expected[name] < LONGEST), key=expected.__getitem__)
    if not several:
        return {}
    chosen = np.unique(np.linspace(0, len(several) - 1, PLANS).astype(int))
    return {several[place]: plans[several[place]] for place in chosen}


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


def fitted(features: np.ndarray, times: np.ndarray) -> np.ndarray:
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
    calibrate()
