"""Measures penstock/optimizer/dataflow/work.py: plans of random joins are run, and the numbers are
those that make up their times best.  No bar is about these joins.

`python -m benchmarks.join_constants`
"""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import numpy as np

from benchmarks.join_orders import JoinOrders, StreamOf, measure
from penstock.optimizer.dataflow.work import Work

TRAINING = 24  # joins
PLANS = 12  # of each


def calibrate() -> None:
    """What places that are looked at, and partners, take is given: the more tuples ask, the more of
    these there are, so times do not tell them apart."""
    features, times = [], []
    for seed in range(TRAINING):
        query = random_join(seed)
        for name, tree, expected, taken, _ in measure(query, rounds=2, most=PLANS):
            work = query.search.total(tree) * (query.seconds * 1e6)
            times.append(taken * 1e9 - Work(looked=work.looked, found=work.found).time)
            features.append(astuple(replace(work, looked=0.0, found=0.0)))
            print(f"{query.name:12} {name:28} {expected:7.3f} {taken:7.3f}", flush=True)
    for name, value in zip(fields(Work), fitted(np.array(features), np.array(times)), strict=True):
        if name.name not in ("looked", "found"):
            print(f"{name.name} {value:,.1f}")


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
