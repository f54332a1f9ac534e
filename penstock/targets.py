"""Where the rows of queries go, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from penstock.answer import Account
from penstock.sinks.sink import Sink
from penstock.sources.rejects import Reject

SinkLike: TypeAlias = Sink | Callable[[Any], object] | str | Path


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows of one query go, its late tuples, and the rows that were kept aside."""

    rows: Sink
    late: Sink | None = None
    rejected: Sink | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the tuples of a query that was run."""

    account: Account
    written: int
    first_rejects: list[Reject]
