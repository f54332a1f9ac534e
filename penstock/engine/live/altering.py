"""ALTER QUERY: how a query is worked on, which changes no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.engine.live.pausing import is_to_pause
from penstock.engine.live.queries import LiveQueries
from penstock.engine.options import Enabling
from penstock.engine.run import LocalRun
from penstock.engine.strategy.strategy import Strategy
from penstock.errors import EngineError, nearest

SETTINGS = ("share", "strategy", "ets", "breaks", "paused")
_ANOTHER = "what a query asks for stays as it is: DROP QUERY, and CREATE QUERY with other state"


class Altering:
    """Its `share` of the time, the `strategy` of its operators, the `ets` of the streams that it
    reads, operators that `breaks` are set behind; or whether it is `paused`."""

    def __init__(self, run: LocalRun, queries: LiveQueries) -> None:
        self._graph = run.graph
        self._queries = queries
        self._known: Mapping[str, Callable[[str, str], None]] = {
            "share": self._share,
            "strategy": self._strategy,
            "ets": self._ets,
            "breaks": self._breaks,
            "paused": self._pause,
        }
        self._again = False  # whether settings are those of a checkpoint

    @staticmethod
    def check(setting: str) -> str:
        """The setting as it is known here."""
        if setting.lower() not in SETTINGS:
            close = nearest(setting, SETTINGS)
            raise EngineError(
                f"a query has no setting {setting!r}",
                expected=f"one of {', '.join(each.upper() for each in SETTINGS)}",
                hint=close[0].upper() if close else _ANOTHER,
            )
        return setting.lower()

    def alter(self, name: str, setting: str, value: str) -> None:
        self._known[setting](name, value)
        self._queries.set(name, setting, value)

    def alter_again(self, name: str, setting: str, value: str) -> None:
        """As it was saved: an operator may be called otherwise by now, and has no such setting."""
        self._again = True
        try:
            self.alter(name, setting, value)
        finally:
            self._again = False

    def _share(self, name: str, value: str) -> None:
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf"):
            raise EngineError(f"{value!r} is not a share", expected="a number above 0")
        self._graph.give(self._queries.outlet(name), share=share)

    def _strategy(self, name: str, value: str) -> None:
        """One for all operators, or several: `bfs; dfs 10 at Union-dbe2fdec`."""
        names = self._nodes(name)
        found = [part.partition(" at ") for part in value.split(";")]
        uses = [
            (Strategy.of(told), self._some(where, names) if at else names)
            for told, at, where in found
        ]
        for strategy, nodes in uses:
            self._graph.use(strategy, nodes)

    def _breaks(self, name: str, value: str) -> None:
        names = self._nodes(name)
        self._graph.break_off(self._named(value, names), among=names)

    def _ets(self, name: str, value: str) -> None:
        self._graph.give(self._queries.outlet(name), ets=Enabling.of(value))

    def _pause(self, name: str, value: str) -> None:
        self._queries.pause([name], is_to_pause(value))

    # --- nodes -----------------------------------------------------------------------------------

    def _nodes(self, name: str) -> list[str]:
        placed = self._graph.queries[self._queries.outlet(name)]
        return [node.name for node in (*placed.operators, *placed.sources)]

    def _some(self, value: str, names: Sequence[str]) -> list[str]:
        if not value.strip(" ,"):
            raise EngineError(
                "at which operators is missing", expected=f"one of {', '.join(names)} after at"
            )
        return self._named(value, names)

    def _named(self, value: str, names: Sequence[str]) -> list[str]:
        """The names of some operators, as the state table has them, with commas between them."""
        told = [each.strip() for each in value.split(",") if each.strip()]
        for each in told:
            if each not in names and not self._again:
                close = nearest(each, names)
                raise EngineError(
                    f"the query has no operator called {each!r}",
                    expected=f"one of {', '.join(names)}",
                    hint=close[0] if close else None,
                )
        return [each for each in told if each in names]
