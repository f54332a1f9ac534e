"""The Adaptive join of the Nile paper, section 6: Sync-Filter as long as there is little to gain,
and Filter-Order when joining takes so much of the time that it had better be done while waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from penstock.errors import PlanError
from penstock.operators.batch import Batch
from penstock.operators.joins.join_state import JoinState
from penstock.operators.joins.ordered.load import SECOND, JoinLoad
from penstock.operators.joins.ordered.ordered_join import OrderedJoin
from penstock.operators.operator import Item, LateRows, Progress
from penstock.plan.expressions import Column
from penstock.plan.nodes.joins import Join
from penstock.state.chunks import ChunkStore

ALPHA = 0.3  # Filter-Order answers a quarter sooner there: α / (1 + α)
_PATIENCE = 5 * SECOND  # between two decisions: what was measured is of the last seconds


class JoinMode(Enum):
    """What is done with tuples as they come.  On the way back from Filter-Order to Sync-Filter,
    results that wait are drained: the steps E to L of the paper."""

    SYNC_FILTER = "Sync-Filter"
    FILTER_ORDER = "Filter-Order"
    DRAINING = "draining"


class AdaptiveJoin(OrderedJoin):
    """In the order of the latest of some times, whatever is done inside: which way is taken depends
    on how long joining takes by a `timer`, and the results do not."""

    def __init__(
        self,
        node: Join,
        alpha: float = ALPHA,
        timer: Callable[[], int] = time.perf_counter_ns,
        by: Sequence[Column] = (),
    ) -> None:
        """`alpha` is the load from which on results are ordered after joining."""
        if not 0 <= alpha < 1:
            raise PlanError(f"α of an adaptive join is {alpha}", expected="from 0 to below 1")
        super().__init__(node, by or node.attributes, any_order=not by)
        self.alpha = alpha
        self._timer = timer
        self.measured = JoinLoad()
        self.mode = JoinMode.SYNC_FILTER
        self._decided: int | None = None  # when
        self.switches = {JoinMode.FILTER_ORDER: 0, JoinMode.SYNC_FILTER: 0}

    def waits(self, port: int) -> bool:  # noqa: ARG002
        return self.mode is not JoinMode.FILTER_ORDER

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        self.measured.came(port, batch.num_rows, self._timer())
        return super().on_batch(port, batch)

    def _join(self, port: int, batch: Batch) -> Iterator[LateRows]:
        begin = self._timer()
        late = list(super()._join(port, batch))
        self.measured.joined(port, batch.num_rows, self._timer() - begin)
        yield from late

    def on_progress(self, port: int, progress: Progress) -> list[Item]:
        now = self._timer()
        load = self.measured.measure(now)
        if load is not None and (self._decided is None or now - self._decided >= _PATIENCE):
            self._decided = now
            self._switch(load >= self.alpha)
        made = super().on_progress(port, progress)
        if self.mode is JoinMode.DRAINING and not len(self.held):
            self.mode = JoinMode.SYNC_FILTER
        return made

    def _switch(self, filters_first: bool) -> None:
        if filters_first is (self.mode is JoinMode.FILTER_ORDER):
            return
        if filters_first:
            self.mode = JoinMode.FILTER_ORDER
            for port, waiting in enumerate(self.waiting):
                ready = waiting.take_all()
                if ready is not None:
                    list(self._join(port, Batch(ready.rows)))  # none of them is late
            self.switches[JoinMode.FILTER_ORDER] += 1
        else:
            self.mode = JoinMode.DRAINING
            self.switches[JoinMode.SYNC_FILTER] += 1

    def counters(self) -> dict[str, int]:
        return {
            **super().counters(),
            "switches to Filter-Order": self.switches[JoinMode.FILTER_ORDER],
            "switches to Sync-Filter": self.switches[JoinMode.SYNC_FILTER],
            "load in percent": round(100 * (self.measured.load or 0)),
        }

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        """What was measured is of this run, and begins anew with another one."""
        super().save(store)
        switches = [self.switches[each] for each in (JoinMode.FILTER_ORDER, JoinMode.SYNC_FILTER)]
        store.put("mode", {"mode": self.mode.value, "switches": switches})

    def load(self, store: ChunkStore) -> None:
        super().load(store)
        saved = store.get("mode")
        if saved is not None:
            self.mode = JoinMode(saved["mode"])
            modes = (JoinMode.FILTER_ORDER, JoinMode.SYNC_FILTER)
            self.switches = dict(zip(modes, saved["switches"], strict=True))

    def adopt(self, state: JoinState) -> None:
        """Results that wait are drained, tuples that wait go on waiting."""
        super().adopt(state)
        if len(self.held):
            self.mode = JoinMode.DRAINING
