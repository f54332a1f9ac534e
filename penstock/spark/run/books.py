"""What all runs on a checkpoint have done together, written down with every micro-batch.

A micro-batch that is run again after a failure replaces what had been written of it, so everything
counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.durable import read_json, write_json
from penstock.runs.adapting.decision import Decision
from penstock.runs.answer import Account
from penstock.runs.status import SourceStatus
from penstock.spark.run.outcome import Tally

_NAME = "account.json"
_NOBODY = -1


@dataclass(frozen=True)
class Books:
    """The tally of all micro-batches before the last one, and with it."""

    batch: int = _NOBODY
    before: Tally = field(default_factory=Tally)
    all: Tally = field(default_factory=Tally)

    def with_batch(self, number: int, made: Tally) -> Books:
        before = self.before if number == self.batch else self.all
        return Books(number, before, before.plus(made))

    @property
    def total(self) -> Account:
        return self.all.account

    @property
    def high(self) -> int | None:
        """The highest value of all streams."""
        found = [source.high for source in self.all.sources if source.high > float("-inf")]
        return int(max(found)) if found else None

    def as_of_now(self) -> Tally:
        """Where a run begins: nothing has been counted, but how far the streams are is known."""
        return replace(self.all, read=0, late=0, rejected=0, rows=0, decisions=[])

    @staticmethod
    def load(given: dict[str, Any]) -> Books:
        return Books(given["batch"], _tally(given["before"]), _tally(given["all"]))


def have_ended(books: Sequence[Books]) -> bool:
    """Whether the end of all streams has been answered."""
    sources = [source for own in books for source in own.all.sources]
    return bool(sources) and all(source.ended for source in sources)


def write_books(directory: Path, books: Sequence[Books]) -> None:
    """Of all queries of a run, at once."""
    first, *others = map(asdict, books)
    content = {"queries": [first, *others]} if others else first
    # without a sync: Spark's own files of the micro-batch are not synced either
    write_json(directory / _NAME, content, sync=False)


def read_books(directory: Path, queries: int) -> list[Books]:
    given = read_json(directory / _NAME)
    if given is None:
        return [Books() for _ in range(queries)]
    return [Books.load(each) for each in given.get("queries", [given])]


def _tally(given: dict[str, Any]) -> Tally:
    sources = [SourceStatus(**each) for each in given["sources"]]
    decisions = [Decision(**each) for each in given.get("decisions", [])]
    return Tally(**{**given, "sources": sources, "decisions": decisions})
