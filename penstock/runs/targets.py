"""Where the rows of queries go, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from penstock.runs.answer import Account
from penstock.sinks.ledger import Ledger
from penstock.sinks.sink import Sink
from penstock.sources.rejects import Reject

SinkLike: TypeAlias = Sink | Callable[[Any], object] | str | Path


@dataclass(frozen=True, slots=True)
class Target:
    """Where the rows of one query go, its late tuples, and the rows that were kept aside."""

    rows: Sink
    late: Sink | None = None
    rejected: Sink | None = None
    ledger: Ledger | None = None  # where outputs that a later run goes on with are noted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the tuples of a query that was run."""

    account: Account
    written: int
    first_rejects: list[Reject]
    total: Account | None = None  # of all runs on the checkpoint, if there is one
    open_windows: int | None = None  # that wait in the checkpoint for a later run
