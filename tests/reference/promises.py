"""An independent model of decision 12: what a stream had promised before each of its tuples."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import penstock as ps
from tests.reference.helpers import Row, Stream

NOTHING = float("-inf")
SCHEMA = "kind STRING, k STRING, x BIGINT, t INT"
Bound = float  # or an int


class Rule(NamedTuple):
    """How a stream promises, and the promise after the values seen and the bounds said so far."""

    given: dict[str, Any]
    promise: Callable[[list[int], list[int]], Bound]


RULES = {
    "ordered": Rule({"ordered": True}, lambda seen, _: max(seen, default=NOTHING)),
    "delay 0": Rule({"delay": 0}, lambda seen, _: max(seen, default=NOTHING)),
    "delay 4": Rule({"delay": 4}, lambda seen, _: max(seen, default=NOTHING) - 4),
    "slack 0": Rule({"slack": 0}, lambda seen, _: max(seen, default=NOTHING)),
    "slack 1": Rule({"slack": 1}, lambda seen, _: max(seen[:-1], default=NOTHING)),
    "slack 3": Rule({"slack": 3}, lambda seen, _: max(seen[:-3], default=NOTHING)),
    "punctuated": Rule(
        {"punctuated": ("kind = 'p'", "t - 2")}, lambda _, said: max(said, default=NOTHING)
    ),
    "groups": Rule(
        {"punctuated": ("kind = 'p'", "t - 2"), "punctuated_for": ["k"]}, lambda *_: NOTHING
    ),
    "groups, delay 4": Rule(
        {"delay": 4, "punctuated": ("kind = 'p'", "t - 2"), "punctuated_for": ["k"]},
        lambda seen, _: max(seen, default=NOTHING) - 4,
    ),
}


class Arrival(NamedTuple):
    """A tuple that is data, and the bound before it."""

    row: Row
    bound: Bound

    @property
    def x(self) -> int:
        return self.row[2]

    @property
    def t(self) -> int:
        return self.row[3]

    @property
    def in_time(self) -> bool:
        return self.t >= self.bound


def arrivals(rows: list[Row], rule: Rule, per: bool) -> list[Arrival]:
    start: dict[Any, Bound] = {}
    seen: dict[Any, list[int]] = {}
    said: dict[Any, list[int]] = {}
    said_of_group: dict[Any, int] = {}

    def bound(source: Any) -> Bound:
        return max(start[source], rule.promise(seen[source], said[source]))

    found = []
    for kind, k, x, t in rows:
        source = k if per else ()
        if kind == "p" and "punctuated_for" in rule.given:
            said_of_group[k] = max(t - 2, said_of_group.get(k, t - 2))
            continue
        if source not in start:
            # a newcomer joins where the slowest of the known sub-sources is
            start[source] = min(map(bound, start), default=NOTHING)
            seen[source], said[source] = [], []
        if kind == "p" and "punctuated" in rule.given:
            said[source].append(t - 2)
            continue
        before = max(bound(source), said_of_group.get(k, NOTHING))
        found.append(Arrival((kind, k, x, t), before))
        seen[source].append(t)
    return found


# --- streams -------------------------------------------------------------------------------------


def random_rows(seed: int) -> list[Row]:
    """Times that rise more or less, out of order by more or less, and sub-sources that come in one
    after the other.  Each x is a power of two, so that a sum says which rows it is made of."""
    rng = random.Random(seed)
    size, rise, spread = rng.randint(4, 18), rng.choice([0, 1, 2]), rng.choice([3, 8, 15])
    rows = []
    for n in range(size):
        kind = rng.choice("dddp")
        key = rng.choice(["a", None, "b", "c"][: 1 + n * 4 // size])
        rows.append((kind, key, 1 << n, round(-8 + n * rise + rng.uniform(-spread, spread))))
    return rows


def stream(rows: list[Row], rule: Rule, per: bool) -> Stream:
    return Stream(SCHEMA, rows, ps.progress("t", per="k" if per else None, **rule.given))
