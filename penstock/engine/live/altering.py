"""ALTER QUERY: how a query is worked on, which changes no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.engine.live.pausing import is_to_pause
from penstock.engine.live.queries import LiveQueries
from penstock.engine.options import Enabling
from penstock.engine.run import LocalRun
from penstock.engine.strategy.strategy import Strategy
from penstock.errors import EngineError, nearest


class Altering:
    """Its `share` of the time, the `strategy` of its operators, the `ets` of the streams that it
    reads; or whether it is `paused`."""

    def __init__(self, run: LocalRun, queries: LiveQueries) -> None:
        self._graph = run.graph
        self._queries = queries
        self._known: Mapping[str, Callable[[str, str], None]] = {
            "share": self._share,
            "strategy": self._strategy,
            "ets": self._ets,
            "paused": self._pause,
        }

    def check(self, setting: str) -> str:
        """The setting as it is known here."""
        if setting.lower() not in self._known:
            close = nearest(setting, self._known)
            raise EngineError(
                f"a query has no setting {setting!r}",
                expected=f"one of {', '.join(each.upper() for each in self._known)}",
                hint=close[0].upper() if close else None,
            )
        return setting.lower()

    def alter(self, name: str, setting: str, value: str) -> None:
        self._known[setting](name, value)
        self._queries.set(name, setting, value)

    def _share(self, name: str, value: str) -> None:
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf"):
            raise EngineError(f"{value!r} is not a share", expected="a number above 0")
        self._graph.give(self._queries.outlet(name), share=share)

    def _strategy(self, name: str, value: str) -> None:
        placed = self._graph.queries[self._queries.outlet(name)]
        nodes = [*placed.operators, *placed.sources]
        self._graph.use(Strategy.of(value), [node.name for node in nodes])

    def _ets(self, name: str, value: str) -> None:
        self._graph.give(self._queries.outlet(name), ets=Enabling.of(value))

    def _pause(self, name: str, value: str) -> None:
        self._queries.pause([name], is_to_pause(value))
