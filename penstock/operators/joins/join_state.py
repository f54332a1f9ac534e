"""What joins exchange that can stand for each other, in a form that names none of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from penstock.operators.operator import Progress

Rows: TypeAlias = tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class JoinState:
    """`kept` are tuples of each input that have met all others that are kept, and may meet more;
    `waiting` those that have come and met none.  `results` are pairs that have not been given out.
    `progress` is what each input has promised, and `promised` what has been promised about
    results."""

    kept: tuple[Rows, ...]
    waiting: tuple[Rows, ...]
    results: Rows
    progress: tuple[Progress, ...]
    promised: Progress


def at_least(promised: Progress, before: Progress) -> Progress:
    """A promise that takes back nothing of what another operator has promised before.

    >>> at_least(Progress({"a.t": 3, "b.t": 9}), Progress({"a.t": 5})).bounds
    {'a.t': 5, 'b.t': 9}
    """
    if promised.ended or not (before.ended or before.bounds):
        return promised
    if before.ended:
        return before
    bounds = {**promised.bounds}
    for name, bound in before.bounds.items():
        bounds[name] = max(bound, bounds.get(name, bound))
    return replace(promised, bounds=bounds)
