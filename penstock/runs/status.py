"""Status of runs, as data that prints well: progress of streams, of runs, and of Spark's
micro-batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.kernel.operator import OperatorStatus
from penstock.model.punctuation import BEGINNING, END, Bound
from penstock.model.ticks import Domain
from penstock.plan.streams import StreamDefinition
from penstock.runs.answer import LatencySummary

_NAMED = 3  # sub-sources that are shown by their names
_MEGABYTE = 1_000_000


@dataclass(repr=False)
class SourceStatus:
    """Progress of a stream: bounds in ticks of its progressing attribute, and the sub-sources that
    hold it back.

    >>> SourceStatus("s", 7, 12, False, ['"d0"', '"d1"'], "7", "12")
    <penstock.SourceStatus s up to 7, highest 12, waits for d0, d1>
    """

    stream: str
    low: float
    high: float
    ended: bool
    waits_for: list[str]  # files by their names, values of PER as JSON
    low_text: str | None = None  # `low` as a value of the attribute
    high_text: str | None = None
    waits_for_others: int = 0  # that are not named, because they are very many

    def __str__(self) -> str:
        if self.ended:
            return f"{self.stream} has ended"
        words = [f"{self.stream} {self._promised}"]
        if self.high_text is not None:
            words.append(f"highest {self.high_text}")
        if waits_for := names_of(self.waits_for, self.waits_for_others):
            words.append(f"waits for {waits_for}")
        return ", ".join(words)

    @property
    def _promised(self) -> str:
        if self.low_text is not None:
            return f"up to {self.low_text}"
        return "has promised nothing yet" if self.low == BEGINNING else "waits for nobody"

    def __repr__(self) -> str:
        return f"<penstock.SourceStatus {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class RunProgress:
    """Progress of a run on Spark after a micro-batch: counts, state, sources, operators,
    latency."""

    batches: int
    read: int
    rows_per_second: float  # of the last micro-batch
    late: int
    rejected: int
    rows: int  # results so far
    state_bytes: int
    open_windows: int | None  # or groups, where there are no windows; None: not known yet
    sources: list[SourceStatus]
    operators: list[OperatorStatus] = field(default_factory=list)  # from the sink to the sources
    latency: LatencySummary | None = None  # from arrivals to results; None: not measured

    def __str__(self) -> str:
        words = [f"{self.read:,} read at {self.rows_per_second:,.0f}/s"]
        words += [f"{self.rows:,} rows given", f"{self.late:,} late", f"{self.rejected:,} rejected"]
        if self.open_windows is not None:
            words.append(f"{self.open_windows:,} open")
        words.append(f"state {self.state_bytes / _MEGABYTE:,.1f} MB")
        if self.latency is not None and self.latency.results:
            words.append(f"latency {self.latency}")
        return "; ".join([", ".join(words), *map(str, self.sources)])

    def __repr__(self) -> str:
        return f"<penstock.RunProgress {self}>"


Watch: TypeAlias = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class WorkInProgress:
    """Progress within a micro-batch on Spark: its number from 1, how many of its tasks are done, as
    far as Spark has planned them, and how many bytes of its files have been read."""

    batch: int
    tasks_done: int = 0
    tasks: int = 0
    bytes_read: int = 0
    bytes_there: int = 0

    def __str__(self) -> str:
        tasks = f", {self.tasks_done:,} of {self.tasks:,} tasks" if self.tasks else ""
        return f"micro-batch {self.batch:,}{tasks}"


def bound_texts(stream: StreamDefinition, low: Bound, high: Bound) -> dict[str, str | None]:
    """Texts of bounds for a status; None where a bound is not known."""

    def text(bound: Bound) -> str | None:
        told = stream.progress is not None and bound not in (BEGINNING, END)
        return Domain(stream.attribute.type).format(int(bound)) if told else None

    return {"low_text": text(low), "high_text": text(high)}


def names_of(sub_sources: Sequence[str], others: int = 0) -> str:
    """Names of the first sub-sources as people write them, and how many more there are, `others`
    among them.

    >>> names_of(['"d0"', "7", "null", '"d3"'])
    'd0, 7, NULL and 1 more'
    """
    named = [_plain(name) for name in sub_sources if name]
    more = len(named) - _NAMED + others
    return ", ".join(named[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _plain(name: str) -> str:
    if name == "null":
        return "NULL"
    try:
        value = json.loads(name) if name.startswith('"') else name
    except ValueError:  # a file may be called anything
        return name
    return str(value)
