"""Registers of a bucket: the bounds that the sub-sources of a scan, and the buckets of a feeding
stage, had promised before a micro-batch; and the low-watermark over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.operator import Progress
from penstock.kernel.progress.group_bounds import GroupBounds, GroupPromises
from penstock.kernel.progress.source_progress import IdleSubSources, RunningBounds
from penstock.kernel.progress.sub_sources import (
    NOTHING,
    SubSourceNames,
    highest_of_each,
    lowest_over,
    ranks_within,
    running_highest,
    watermarks,
)
from penstock.kernel.retractions.lineage import of_branch
from penstock.kernel.state import ChunkStore, Tree, Within, required
from penstock.model.arrays import Codes, Ints, Mask, stable_order
from penstock.model.clock import Clock
from penstock.model.punctuation import BEGINNING, Bound, JointPunctuation, Ordered
from penstock.plan.streams import StreamProgress
from penstock.spark.tasks.messages import GroupsPromised, Moves, Reports

# Bounds of the sub-sources of one task before a micro-batch.


@dataclass(frozen=True, slots=True)
class StartBounds:
    """Bounds before the rows of a task: those of sub-sources by their places in the report, their
    numbers in the register, and the tuples that SLACK held back."""

    codes: Codes
    bounds: Ints
    sizes: Ints
    recent: Ints
    slack: int

    def of_rows(self, places: Ints, numbers: Ints | None) -> Ints:
        """Bound before each row, as far as earlier micro-batches made it."""
        if numbers is None:
            settled = np.maximum(self.bounds, highest_of_each(self.sizes, self.recent))
            of_rows: Ints = settled[places]
            return of_rows
        return np.maximum(self.bounds[places], self.passed(places, numbers))

    def passed(self, places: Ints, after: Ints) -> Ints:
        """Highest held-back tick that has been released after so many rows."""
        if not self.slack:
            return np.full(len(places), NOTHING)
        sizes = self.sizes[places]
        released = np.clip(sizes + after - self.slack, 0, sizes)
        begins = np.cumsum(self.sizes + 1) - (self.sizes + 1)
        passed: Ints = self._highest()[begins[places] + released]
        return passed

    def _highest(self) -> Ints:
        """Highest of none, one, two… held-back ticks, for each sub-source."""
        sizes = self.sizes + 1
        values = np.full(int(sizes.sum()), NOTHING)
        first = ranks_within(sizes) == 0
        values[~first] = self.recent
        return running_highest(values, first)


# Registers: one per origin, with the bound promised before the micro-batch; the low-watermark is
# the lowest of them.
#
# Every bucket of a stage gets the same reports and computes the same registers.


def joined_at(moves: Moves, starts: StartBounds, known: Mask, others: int | None, low: int) -> Ints:
    """Low-watermark at the first row of each sub-source of a task, where it joins if it is not
    `known`.  `others` is the lowest bound of the sub-sources without rows in the task, None if none
    is known; `low` is the low-watermark so far."""
    size = len(known)
    order = stable_order(moves.places)
    places, at = moves.places[order], moves.at[order]
    last = np.append(places[1:] != places[:-1], True) if len(places) else np.zeros(0, np.bool_)
    until = np.append(at[1:], size)[: len(at)]
    until[last] = size
    reached = np.maximum(starts.bounds[places], moves.bounds[order])
    reached = np.maximum(reached, starts.passed(places, moves.held[order]))
    # before its first move, a known sub-source keeps its bound
    first = np.full(size, size)
    first[places[::-1]] = at[::-1]
    begins = np.where(known, 0, np.arange(size) + 1)
    lowest = lowest_over(
        np.concatenate([begins, at]),
        np.concatenate([first, until]),
        np.concatenate([starts.bounds, reached]),
        size,
    )
    return watermarks(lowest, others, low)


class SourceRegister(RunningBounds):
    """Registers of the sub-sources of one scan, raised by the reports of tasks instead of by
    rows."""

    def __init__(
        self,
        progress: StreamProgress | None,
        name: str | None,
        known: list[str],
        clock: Clock,
        live: bool = False,
        groups: GroupPromises | None = None,
    ) -> None:
        """`name` is the progressing column, if there is one; `known` are the files that are
        sub-sources from the start.  A bounded source is never idle; one that is `live` may be.
        `groups` are those that the stream is punctuated for."""
        policy = progress.policy if progress is not None else None
        super().__init__(policy.rule if policy is not None else Ordered())
        self.name = name
        self._names = SubSourceNames(progress)
        self._joined = NOTHING  # the bound at which newcomers have joined in this micro-batch
        self.add_files(known)
        self.groups = groups
        self.high: Bound = BEGINNING
        self.ended = False
        self.idle = None
        if live and policy is not None and policy.idle_after is not None:
            self.idle = IdleSubSources(self, policy, clock)

    def add_files(self, names: list[str]) -> None:
        """Add files as sub-sources."""
        if names:
            self.let_in(self._names.of_files(names))

    def join(self, reports: Reports) -> StartBounds:
        """Add the newcomers among the sub-sources of a task, and return the bounds before its
        rows."""
        codes = self._names.numbers(reports.names)
        self._reserve(int(codes.max(initial=-1)) + 1)
        known = self._waited_for[codes]
        bounds = self._bounds[codes]
        bounds[known] = np.maximum(bounds[known], self._low)
        slack = self._held.slack if self._held is not None else 0
        starts = StartBounds(codes, bounds, *self._recent(codes), slack)
        if not known.all():
            others = self._lowest_without(codes) if self._waiting else None
            joined = joined_at(reports.moves, starts, known, others, max(self._low, self._joined))
            self._joined = int(joined[~known][-1])
            bounds[~known] = np.maximum(bounds[~known], joined[~known])
            self._wait_for(codes[~known])
            self._move(codes, bounds)
        return starts

    def remove_files(self, names: list[str]) -> None:
        """Remove files that have come to their end from the low-watermark."""
        for code in self._names.of_files(names).tolist() if names else []:
            if self.knows(code):
                self.leave_out(np.array([code]))
                if self.idle is not None:
                    self.idle.forget(np.array([code]))

    def advance(self, starts: StartBounds, reports: Reports, high: Bound) -> None:
        """Raise the registers to the bounds that a task reports."""
        codes = starts.codes
        if self.idle is not None and len(reports):
            self.idle.heard(codes[reports.rows > 0])
        reached = np.maximum(self._bounds[codes], reports.bounds)
        if self._held is not None and self._held.slack:
            released = self._held.released(codes, reports.sizes, reports.recent)
            reached = np.maximum(reached, highest_of_each(reports.sizes, released))
        self._move(codes, np.maximum(reached, self._low))
        self._joined = NOTHING
        self.high = max(self.high, high)

    def status(self) -> Tree:
        """Progress of the source, and the sub-sources that hold it back."""
        names, others = ([], 0) if self.ended else self._names.some_texts(self.held_back_by)
        status = {"low": self.low, "high": self.high, "ended": self.ended}
        return {**status, "waits_for": names, "waits_for_others": others}

    def finish(self) -> None:
        """Note the end of the source."""
        self.ended = True

    def progress(self) -> Progress:
        if self.name is None:
            return Progress(ended=self.ended)
        bounds, high = (
            {} if bound == BEGINNING else {self.name: bound} for bound in (self.low, self.high)
        )
        return Progress(bounds, high, self.ended)

    def bounds_of_groups(self, keys: list[pa.Array]) -> Ints:
        """Bounds that had been promised for some groups."""
        return self.groups.of(keys) if self.groups is not None else np.full(len(keys[0]), NOTHING)

    def raise_groups(self, promised: GroupsPromised | None) -> None:
        if promised is not None and self.groups is not None:
            self.groups.raise_to(*promised)

    def new_group_bounds(self) -> GroupBounds | None:
        """Bounds of groups that are new since the last call.  Groups below the bound of the whole
        source are purged."""
        return self.groups.told(self.low) if self.groups is not None else None

    def save(self, store: ChunkStore) -> None:
        super().save(store)
        self._names.save(store)
        if self.idle is not None:
            self.idle.save(Within(store, "idle/"))
        if self.groups is not None:
            self.groups.save(Within(store, "groups/"))
        store.put("source", {"high": self.high, "ended": self.ended})

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        self._names.load(store)
        if self.groups is not None:
            self.groups.load(Within(store, "groups/"))
        saved = required(store, "source")
        self.high, self.ended = saved["high"], saved["ended"]
        if self.idle is not None:
            self.idle.begin_anew()

    def resume_silence(self, store: ChunkStore) -> None:
        """Restore the timers of idle sub-sources: the run has not stopped since this was saved, so
        silence goes on."""
        if self.idle is not None and store.get("idle/last") is not None:
            self.idle.load(Within(store, "idle/"))


class StageRegister:
    """Registers of the buckets of a stage that feeds this one."""

    def __init__(
        self, buckets: int, origins: Mapping[str, str], before: int = 0, others: int = 0
    ) -> None:
        """`origins` are the names that columns of progress are saved by.  Other buckets feed this
        stage, too, in the order of its paths: so many `before` these, and so many `others` after
        them."""
        self._reported = [Progress() for _ in range(buckets)]
        self._origins = origins
        self._before = before
        self._all = before + buckets + others

    def with_unique_lineage(self, batch: Batch, origin: int) -> Batch:
        """Make the lineage numbers of the rows of a bucket unique: every bucket numbers its own
        from 0 on."""
        if batch.lineage is None:
            return batch
        return replace(batch, lineage=of_branch(batch.lineage, self._before + origin, self._all))

    def advance(self, origin: int, progress: Progress) -> None:
        self._reported[origin] = progress

    def progress(self) -> Progress:
        return slowest(self._reported)

    def save(self, store: ChunkStore) -> None:
        store.put("buckets", [each.save(self._origins) for each in self._reported])

    def load(self, store: ChunkStore) -> None:
        self._reported = [Progress.load(each, self._origins) for each in required(store, "buckets")]


def slowest(inputs: list[Progress]) -> Progress:
    """Merge the progress of several inputs: the low-watermark of each column."""
    waiting = [each.bounds for each in inputs if not each.ended]
    common = set.intersection(*map(set, waiting)) if waiting else set()
    bounds = {name: min(each[name] for each in waiting) for name in common}
    high: dict[str, Bound] = {}
    for each in inputs:
        for name, bound in each.high.items():
            high[name] = max(bound, high.get(name, BEGINNING))
    joint = _slowest_jointly([each.joint for each in inputs if not each.ended])
    return Progress(bounds, high, not waiting, joint=joint)


def _slowest_jointly(inputs: list[tuple[JointPunctuation, ...]]) -> tuple[JointPunctuation, ...]:
    """Merge joint bounds on pairs of columns.  A tuple below the lowest bounds on both columns
    would be below both bounds of the input that it comes from, which has promised that there is
    none.  A pair about which an input says nothing is left out: that loses a bound, and nothing
    else."""
    if not inputs:
        return ()
    first, *others = inputs
    found = []
    for promise in first:
        bounds = [promise.bounds]
        for each in others:
            same = [p.on(promise.attributes) for p in each if p.is_on(promise.attributes)]
            bounds += [p.bounds for p in same[:1]]
        if len(bounds) == len(inputs):
            one, other = zip(*bounds, strict=True)
            found.append(JointPunctuation(promise.attributes, (min(one), min(other))))
    return tuple(found)
