"""Joins of two small streams, driven tuple by tuple without an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.joins.oa_join import OaJoin
from penstock.kernel.joins.ordered_joins import (
    AdaptiveJoin,
    FilterOrderJoin,
    OpibJoin,
    OpobJoin,
    SyncFilterJoin,
)
from penstock.kernel.joins.pairing import JoinState
from penstock.kernel.operator import Item, Movable, Progress
from penstock.plan.nodes.join import Join
from tests.reference.helpers import Stream, database

SCHEMA = "k STRING, t BIGINT"
WINDOWS = (
    "l [RANGE 6, WA t], r [RANGE 6, WA t] WHERE l.k = r.k",
    "l [RANGE 5, WA t], r [RANGE 2, WA t] WHERE l.k = r.k",
    "l, r [RANGE TUMBLING 4, WA t] WHERE l.k = r.k",
    "l JOIN r ON l.k = r.k AND r.t > l.t + 2 AND r.t <= l.t + 6",
    "l JOIN r ON l.k = r.k AND r.t BETWEEN l.t - 7 AND l.t - 3",
)

Make = Callable[[Join], Movable[JoinState]]
BY_FIRST: dict[str, Make] = {"OPOB": OpobJoin, "OPIB": OpibJoin}
BY_SECOND: dict[str, Make] = {
    "OPOB": lambda node: OpobJoin(node, 1),
    "OPIB": lambda node: OpibJoin(node, 1),
}
BY_BOTH: dict[str, Make] = {
    "Sync-Filter": SyncFilterJoin,
    "Filter-Order": FilterOrderJoin,
    "Adaptive": AdaptiveJoin,
}
ALL: list[Make] = [OaJoin, *BY_FIRST.values(), *BY_SECOND.values(), *BY_BOTH.values()]


class Came(NamedTuple):
    """A tuple that comes at a port, and what its input promises then."""

    port: int
    key: str
    tick: int
    bound: int


STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("aab"), st.integers(-3, 4)), max_size=40
)


def arrivals(steps: list[tuple[int, str, int]], skew: int = 0) -> list[Came]:
    """Streams that move on, up to three ticks out of order; the right one is ahead by `skew`."""
    at = [0, skew]
    highest = [0, skew]
    found = []
    for port, key, step in steps:
        at[port] = max(at[port] + step, highest[port] - 3)
        highest[port] = max(highest[port], at[port])
        found.append(Came(port, key, at[port], highest[port] - 3))
    return found


@cache
def join_of(window: str) -> Join:
    streams = {name: Stream(SCHEMA, [], ps.progress("t", delay=2)) for name in "lr"}
    query = database(**streams).sql(f"SELECT l.t, r.t FROM {window}")
    assert isinstance(query, ps.Query)
    return next(node for node in query.plan.walk() if isinstance(node, Join))


def batch(port: int, key: str | None, tick: int) -> Batch:
    names = [f"{'lr'[port]}.{name}" for name in ("k", "t")]
    return Batch(pa.record_batch([pa.array([key], pa.string()), pa.array([tick])], names))


def promise(port: int, bound: int) -> Progress:
    return Progress({f"{'lr'[port]}.t": bound})


def feed(operator: Any, came: Came) -> list[Item]:
    found = operator.on_batch(came.port, batch(came.port, came.key, came.tick))
    return [*found, *operator.on_progress(came.port, promise(came.port, came.bound))]


def end(operator: Any) -> list[Item]:
    last = Progress({}, ended=True)
    return [*operator.on_progress(0, last), *operator.on_progress(1, last)]


def pairs(items: Iterable[Item]) -> list[tuple[int, int]]:
    """The times of the results, in the order in which they leave."""
    found = [item.rows for item in items if isinstance(item, Batch)]
    return [(row["l.t"], row["r.t"]) for rows in found for row in rows.to_pylist()]


def expected(node: Join, came: list[Came]) -> list[tuple[int, int]]:
    window = node.window.between(0, 1)
    assert window is not None
    left, right = ([each for each in came if each.port == port] for port in (0, 1))
    return sorted(
        (one.tick, other.tick)
        for one in left
        for other in right
        if one.key == other.key and window.matches(one.tick, other.tick)
    )
