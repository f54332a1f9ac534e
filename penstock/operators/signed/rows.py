"""Row windows over signed items: positive and negative ones are counted alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.model.arrays import Ints
from penstock.model.punctuation import BEGINNING, Bound
from penstock.model.types import INT64_MAX
from penstock.operators.batch import Batch
from penstock.operators.open_results import OpenResults
from penstock.operators.operator import Base, Item, Progress, at_once
from penstock.operators.revising.amendment import in_time_of
from penstock.operators.signed.kept_items import KeptItems
from penstock.operators.signed.partitions import NetPartitions, by_part
from penstock.operators.windows.counted.rows import windows_batch
from penstock.operators.windows.results import promised
from penstock.physical.asked import Asked
from penstock.plan.nodes.aggregates import WindowAggregate
from penstock.state.chunks import ChunkStore, Within
from penstock.windows.landmark import Landmark
from penstock.windows.rows import RowWindow


class SignedRows(Base):
    """By rank, items wait for the bound and are counted then."""

    def __init__(self, node: WindowAggregate, asked: Asked | None = None) -> None:
        assert isinstance(node.window, RowWindow)
        self.node = node
        self._window = node.window
        self._over = node.window.over_rows
        attribute = node.attribute
        self._in_time = in_time_of([attribute], node.input, asked) if attribute else None
        self._waiting = KeptItems(node.input.schema.arrow)
        self._parts = NetPartitions(node)
        self._next: dict[int, int] = {}  # by partition, the first window not given out
        self._highest: Bound = BEGINNING  # of the windows that had results
        self._ended = False

    @at_once
    def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is None:
            yield from self._count(batch)
            return
        given, ticks, late = self._in_time.split_signed(batch)
        self._waiting.add(given, ticks[0])
        yield from late

    @at_once
    def on_progress(self, port: int, progress: Progress) -> Iterator[Item]:  # noqa: ARG002
        if self._in_time is not None:
            settled = self._waiting.below(self._in_time.final(progress)[0])
            if settled is not None:
                yield from self._count(settled[0])
        if progress.ended and not self._ended:
            self._ended = True
            yield from self._released({part: self._stop(part) for part in self._next})
            yield self._promise(ended=True)

    def _count(self, batch: Batch) -> Iterator[Item]:
        """Number items, and give out the windows whose end the count has passed."""
        if batch.num_rows == 0:
            return
        parts, numbers = self._parts.numbers.number(batch.rows)
        self._parts.settle(batch, parts, numbers, *self._windows_of(numbers))
        counts = self._parts.numbers.counts
        closed: dict[int, int] = {}
        for part, own in by_part(parts):
            self._next.setdefault(part, int(numbers[own[0]]) // self._window.slide)
            closed[part] = int(counts[part]) // self._window.slide
        released = list(self._released(closed))
        self._parts.forget()
        yield from released
        if released and not self._window.partitioned:
            yield self._promise(ended=False)

    def _windows_of(self, numbers: Ints) -> tuple[Ints, Ints]:
        if isinstance(self._over, Landmark):
            return self._over.first_wid(numbers), np.full(len(numbers), INT64_MAX)
        return self._over.wid_bounds(numbers)

    def _stop(self, part: int) -> int:
        """The one after the last window that has items, if no more come."""
        count = int(self._parts.numbers.counts[part])
        if self._window.range is None:
            return (count - 1) // self._window.slide + 1
        return (count - 1 + self._window.range) // self._window.slide

    def _released(self, closed: dict[int, int]) -> Iterator[Item]:
        """Of each partition the windows before the given one."""
        for part, stop in closed.items():
            if stop > self._next[part] and part in self._parts.extents:
                for ids, columns in self._parts.of(part).windows(self._next[part], stop):
                    self._highest = max(self._highest, int(ids[-1]))
                    yield Batch(windows_batch(self.node, [(ids, columns)]))
                self._parts.of(part).pass_(stop)
            self._next[part] = max(stop, self._next[part])

    def _promise(self, ended: bool) -> Progress:
        if self._window.partitioned or 0 not in self._next:
            return Progress(ended=ended)
        reached = None if self._highest == BEGINNING else int(self._highest) + 1
        return promised(self._over, self._next[0], reached, ended)

    def rows_held(self) -> int:
        return len(self._waiting) + len(self._parts)

    def open_results(self) -> OpenResults:
        """Partitions with items in windows that are not full."""
        kept = sum(len(each) > 0 for each in self._parts.extents.values())
        return OpenResults(others=kept or int(len(self._waiting) > 0))

    def save(self, store: ChunkStore) -> None:
        self._waiting.save(Within(store, "waiting/"))
        self._parts.save(store)
        registers = {"highest": self._highest, "ended": self._ended}
        parts = np.array(list(self._next), np.int64)
        windows = np.array(list(self._next.values()), np.int64)
        store.put("run", {**registers, "parts": parts, "next": windows})

    def load(self, store: ChunkStore) -> None:
        saved = store.get("run")
        if saved is None:
            return
        self._waiting.load(Within(store, "waiting/"))
        self._parts.load(store)
        self._highest, self._ended = saved["highest"], saved["ended"]
        self._next = dict(zip(saved["parts"].tolist(), saved["next"].tolist(), strict=True))
