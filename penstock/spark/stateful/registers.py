"""What had been promised before a micro-batch: a register per origin, and the lowest of them all.

Every bucket of a stage gets the same reports and comes to the same registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Ints
from penstock.model.clock import Clock
from penstock.model.progress import Ordered, ProgressPolicy, Slack
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.types import Type
from penstock.model.watermark import LowWatermark
from penstock.operators.batch import Batch
from penstock.operators.operator import Progress
from penstock.operators.ticks import to_ticks
from penstock.promises.idle import IdleSubSources
from penstock.promises.running_bounds import NOTHING, RunningBounds
from penstock.spark.tasks.bounds import Report
from penstock.spark.tasks.chain import Chain
from penstock.state.chunks import ChunkStore, Tree, required


@dataclass(frozen=True, slots=True)
class Starts:
    """The bounds before a micro-batch of the sub-sources of one task, and what SLACK held back."""

    bounds: list[Bound]
    recent: list[Ints]

    def of_rows(self, places: Ints, numbers: Ints | None, slack: int) -> Ints:
        """The bound before each row as far as earlier micro-batches made it."""
        settled = [
            max(_tick(bound), int(recent.max(initial=NOTHING)))
            for bound, recent in zip(self.bounds, self.recent, strict=True)
        ]
        bounds: Ints = np.array(settled, np.int64)[places]
        if numbers is None:
            return bounds
        for place, recent in enumerate(self.recent):
            mine = np.flatnonzero(places == place)
            # of what was held back, a row sees what so many rows before it have released
            released = np.clip(len(recent) + numbers[mine] - slack, 0, len(recent))
            highest = np.maximum.accumulate(np.concatenate([[NOTHING], recent]))
            bounds[mine] = np.maximum(highest[released], _tick(self.bounds[place]))
        return bounds


def _tick(bound: Bound) -> int:
    return NOTHING if bound == BEGINNING else int(bound)


def _bound(tick: int) -> Bound:
    return BEGINNING if tick == NOTHING else tick


class SourceRegister(RunningBounds):
    """The sub-sources of one scan, moved on by the reports of tasks instead of by rows."""

    def __init__(
        self,
        policy: ProgressPolicy | None,
        name: str | None,
        known: list[str],
        clock: Clock,
        live: bool = False,
    ) -> None:
        """`name` is the progressing column, if there is one; `known` are the sub-sources that are
        known from the start.  What is read to its end is never silent; what is `live` may be."""
        self.policy = policy
        self.name = name
        super().__init__(policy.rule if policy is not None else Ordered(), list(known) or None)
        self.high: Bound = BEGINNING
        self.ended = False
        self.idle = None
        if live and policy is not None and policy.idle_after is not None:
            self.idle = IdleSubSources(self, policy, clock)

    @property
    def slack(self) -> int:
        return self._rule.rows if isinstance(self._rule, Slack) else 0

    def join(self, reports: list[Report]) -> Starts:
        """Let in the newcomers among the sub-sources of a task."""
        low = LowWatermark(list(self._bounds))
        for key, each in self._bounds.items():
            low.advance(key, each.bound)
        low.raise_to(self._low.value)
        starts = Starts([], [])
        for report in reports:
            for place, bound, held in report.others:
                key = reports[place].key
                before = self._bounds[key]
                released = before.recent[: max(0, len(before.recent) + held - self.slack)]
                passed = _bound(int(released.max(initial=NOTHING)))
                low.advance(key, max(bound, before.bound, passed))
            if report.key not in self._bounds:
                self._low.raise_to(low.value)
                self._let_in(report.key)
                low.advance(report.key, self._bounds[report.key].bound)
            own = self._bounds[report.key]
            starts.bounds.append(own.bound)
            starts.recent.append(own.recent)
        return starts

    def let_go(self, keys: list[str]) -> None:
        """Nobody waits for sub-sources that have come to their end."""
        for key in keys:
            if self.knows(key):
                self.leave_out(key)
                if self.idle is not None:
                    self.idle.forget(key)

    def advance(self, reports: list[Report], high: Bound) -> None:
        """Move on to where a task has come."""
        if self.idle is not None and reports:
            keys = [report.key for report in reports if report.rows]
            self.idle.heard(list(keys), np.arange(len(keys)))
        for report in reports:
            own = self._bounds[report.key]
            joined = np.concatenate([own.recent, report.recent])
            if self.slack and report.rows < self.slack:
                released = joined[: max(0, len(joined) - self.slack)]
                own.recent = joined[len(released) :]
            else:
                released, own.recent = own.recent, report.recent
            passed = _bound(int(released.max(initial=NOTHING)))
            own.bound = max(own.bound, report.bound, passed)
            self._low.advance(report.key, own.bound)
        self.high = max(self.high, high)

    def status(self) -> Tree:
        """How far the source has come, and whom it waits for."""
        waits_for = [] if self.ended else [str(key) for key in self._low.held_back_by if key]
        return {"low": self.low, "high": self.high, "ended": self.ended, "waits_for": waits_for}

    def finish(self) -> None:
        """Nothing comes any more."""
        self.ended = True

    def progress(self) -> Progress:
        if self.name is None:
            return Progress(ended=self.ended)
        bounds, high = (
            {} if bound == BEGINNING else {self.name: bound} for bound in (self.low, self.high)
        )
        return Progress(bounds, high, self.ended)

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        idle = self.idle.save() if self.idle is not None else None
        store.put("source", {"high": self.high, "ended": self.ended, "idle": idle})

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        saved = required(store, "source")
        self.high, self.ended = saved["high"], saved["ended"]
        if self.idle is not None:
            self.idle.begin_anew(self._bounds)

    def go_on_waiting(self, store: ChunkStore) -> None:
        """Nothing has stopped since this was saved, so silence has gone on, too."""
        idle = required(store, "source")["idle"]
        if self.idle is not None and idle is not None:
            self.idle.load(idle)


class StageRegister:
    """The buckets of a stage that feeds this one."""

    def __init__(self, buckets: int, origins: Mapping[str, str]) -> None:
        """`origins` is by which names the columns of progress are saved."""
        self._told = [Progress() for _ in range(buckets)]
        self._origins = origins

    def advance(self, origin: int, progress: Progress) -> None:
        self._told[origin] = progress

    def progress(self) -> Progress:
        return slowest(self._told)

    def save(self, store: ChunkStore) -> None:
        store.put("buckets", [each.save(self._origins) for each in self._told])

    def load(self, store: ChunkStore) -> None:
        self._told = [Progress.load(each, self._origins) for each in required(store, "buckets")]


def slowest(told: list[Progress]) -> Progress:
    """What several inputs promise together."""
    waiting = [each.bounds for each in told if not each.ended]
    common = set.intersection(*map(set, waiting)) if waiting else set()
    bounds = {name: min(each[name] for each in waiting) for name in common}
    high: dict[str, Bound] = {}
    for each in told:
        for name, bound in each.high.items():
            high[name] = max(bound, high.get(name, BEGINNING))
    return Progress(bounds, high, not waiting)


def marked(batch: Batch, before: Ints, name: str, chain: Chain, types: dict[str, Type]) -> Batch:
    """The batch with the bounds that its rows broke: those that their task knew of, and those from
    `before`, which are ticks of the column `name` of the scan."""
    different, inverse = np.unique(before, return_inverse=True)
    mapped = [
        chain.progress(Progress({name: int(tick)} if tick > NOTHING else {})).bounds
        for tick in different
    ]
    rows, broken = batch.rows, {}
    for column, sql_type in types.items():
        bounds = np.array([_tick(each.get(column, BEGINNING)) for each in mapped])[inverse]
        own = (batch.broken or {}).get(column)
        if own is not None:
            bounds = np.maximum(bounds, np.asarray(own.fill_null(NOTHING)))
        ticks = to_ticks(rows.column(rows.schema.get_field_index(column)), sql_type)
        broken[column] = pa.array(bounds, mask=ticks >= bounds)
    kept = all(column.null_count == len(column) for column in broken.values())
    return replace(batch, broken=None if kept else broken)
