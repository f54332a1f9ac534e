"""When sources that have nothing to say are asked how far they have come.

On demand: a source is empty, and an operator behind it holds rows that only progress releases.  It
is asked when going back from such an operator has led to it, or when nothing is left to do; and
again as long as that lets tuples through.  Otherwise every so often, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from penstock.engine.graph.node import GraphNode
from penstock.engine.graph.source_node import SourceNode
from penstock.engine.options import Enabling
from penstock.engine.scheduling.component import Component
from penstock.model.clock import Clock

_SOON, _SELDOM = 1_000, 1_000_000  # microseconds between two looks at what waits for the clock


class EnablingMode:
    """What is asked of the components of a run, and when to look at the clock for it."""

    def __init__(self, mode: Enabling, clock: Clock) -> None:
        self._mode = mode
        self._clock = clock
        self._pause = _SOON
        self._next: dict[int, int] = {}  # periodic timestamp, by the time between two
        # the rows that had been released when a source was asked
        self._asked: WeakKeyDictionary[SourceNode, int] = WeakKeyDictionary()

    def stir(self) -> None:
        """Something has come: who waits for the clock now may not have to wait for long."""
        self._pause = _SOON

    # --- when going back has led to a source -----------------------------------------------------

    def ask(self, node: GraphNode) -> bool:
        """If it has nothing to say and rows wait idly; not again if that has helped nobody."""
        component = node.component
        if not isinstance(node, SourceNode) or component is None or not component.is_live:
            return False
        if not self._mode_of(component).on_demand:
            return False
        if not node.is_empty or not node.ingest.can_enable or not component.waiting_idly:
            return False
        if _empty(component)[0] is not node:
            return False  # rows wait for another one, who is asked when nothing is left to do
        released = component.released
        if self._asked.get(node) == released:
            return False
        self._asked[node] = released
        node.enable()
        return True

    # --- after each step -------------------------------------------------------------------------

    def after(self, component: Component) -> None:
        """Nothing waits in a component any more."""
        if self._mode_of(component).on_demand and component.is_live:
            self._demand(component)

    def _demand(self, component: Component) -> None:
        while (sources := _empty(component)) and component.waits_for_progress:
            released = component.released
            for source in sources:
                source.enable()
                component.drain()
                if not component.waits_for_progress:
                    return
            if component.released == released:
                return

    # --- when nothing happens --------------------------------------------------------------------

    def due(self, components: Sequence[Component]) -> int | None:
        """When to look again: at the time of the next silence that means something; after a while
        if the clock may let something through; when it is time for a periodic timestamp."""
        if not any(_minds_the_clock(each) for each in components):
            return None
        now = self._clock.now()
        times: list[int] = []
        for component in components:
            for source in component.sources:
                silence = source.ingest.due()
                if silence is not None and silence > now:
                    times.append(silence)
            if self._moves_on(component) and component.waits_for_progress:
                times.append(now + self._pause)
            every = self._mode_of(component).every
            if every is not None and _empty(component):
                if self._next.get(every, 0) <= now - every:
                    self._next[every] = now + every
                times.append(self._next[every])
        return min(times, default=None)

    def look(self, components: Sequence[Component]) -> None:
        """It is time.  Whoever still waits is looked at less and less often."""
        self._pause = min(2 * self._pause, _SELDOM)
        due = self._now_due()
        for component in components:
            mode = self._mode_of(component)
            for source in component.sources:
                if source.ingest.due() is not None:
                    source.fall_silent()
                if mode.every in due and source in _empty(component):
                    source.enable()
            component.drain()
            if mode.on_demand:
                self._demand(component)

    def _now_due(self) -> set[int]:
        """The times between two timestamps that have passed."""
        now = self._clock.now()
        due = {every for every, at in self._next.items() if at <= now}
        for every in due:
            self._next[every] += every
        return due

    def _mode_of(self, component: Component) -> Enabling:
        return component.enabling or self._mode

    def _moves_on(self, component: Component) -> bool:
        """Whether the clock alone may raise a bound."""
        now = self._clock.now()
        silences = [source.ingest.due() for source in component.sources]
        silent = any(due is not None and due <= now for due in silences)
        return silent or (self._mode_of(component).on_demand and bool(_empty(component)))


def _minds_the_clock(component: Component) -> bool:
    ingests = [source.ingest for source in component.sources]
    return any(ingest.can_enable or ingest.due() is not None for ingest in ingests)


def _empty(component: Component) -> list[SourceNode]:
    """Sources without anything to say that can promise something, the slowest first."""
    found = [each for each in component.sources if each.ingest.can_enable and each.is_empty]
    return sorted(found, key=lambda source: source.ingest.low)
