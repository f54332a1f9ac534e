"""The parts of a graph that are worked on by one thread at a time."""

from __future__ import annotations

from penstock.engine.options import Enabling
from penstock.engine.scheduling.component import Component
from penstock.engine.scheduling.components import Components
from penstock.engine.scheduling.enabling import EnablingMode
from penstock.model.clock import Clock


class Group:
    def __init__(self, number: int, parts: Components, mode: Enabling, clock: Clock) -> None:
        self.number = number
        self.cycle = parts.cycles[number]
        self.enabling = EnablingMode(mode, clock)
        self.cycle.ask = self.enabling.ask
        self._parts = parts

    @property
    def components(self) -> list[Component]:
        return self._parts.in_group(self.number)

    @property
    def awake(self) -> list[Component]:
        """Those whose queries are not paused."""
        return [each for each in self.components if not each.held]

    def has(self, component: Component | None) -> bool:
        return component is None or component.group == self.number
