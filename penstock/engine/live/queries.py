"""The queries of a live engine by their names: they come, go, end and fail, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from penstock.engine.live.status import QueryStatus
from penstock.engine.run import LocalRun
from penstock.errors import EngineError, nearest
from penstock.physical.plan import PhysicalPlan
from penstock.runs.answer import Account
from penstock.runs.isolated import IsolatedOutlet
from penstock.runs.outlet import Outlet
from penstock.runs.tables import Tables

OnClose = Callable[[BaseException | None], None]
"""Called when nothing follows, with what has gone wrong."""


@dataclass
class _Entry:
    name: str
    outlet: IsolatedOutlet
    on_close: OnClose | None
    state: str = "running"
    error: BaseException | None = None
    account: Account | None = None  # when it no longer runs


class LiveQueries:
    def __init__(self, run: LocalRun) -> None:
        self._run = run
        self._entries: dict[str, _Entry] = {}
        self._names: dict[IsolatedOutlet, str] = {}  # of those that run

    def add(
        self,
        name: str,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        tables: Tables,
        on_close: OnClose | None,
    ) -> None:
        known = self._entries.get(name)
        if known is not None and known.state == "running":
            raise EngineError(f"a query called {name!r} is running", hint="DROP QUERY first")
        self._run.add(plan, outlet)
        try:
            self._run.read_tables(tables)
        except BaseException:
            self._run.drop(outlet)
            raise
        self._entries[name] = _Entry(name, outlet, on_close)
        self._names[outlet] = name

    def drop(self, name: str) -> Account:
        entry = self._entry(name)
        if entry.state == "running":
            self._leave(entry, "dropped", None)
        del self._entries[name]
        if entry.error is not None and entry.state == "dropped":
            raise entry.error  # a sink that could not be closed
        assert entry.account is not None
        return entry.account

    def outlet(self, name: str) -> IsolatedOutlet:
        """Of a query that runs."""
        entry = self._entry(name)
        if entry.state != "running":
            raise EngineError(f"query {name!r} has {entry.state}", hint="SHOW QUERIES")
        return entry.outlet

    # --- what becomes of them --------------------------------------------------------------------

    def fail(self, outlets: Iterable[Outlet], error: BaseException) -> None:
        """Some queries cannot go on."""
        for outlet in list(outlets):
            assert isinstance(outlet, IsolatedOutlet)
            self._leave(self._entries[self._names[outlet]], "failed", error)

    def look(self, ended: bool) -> bool:
        """Whether a sink has failed; or, if a source has `ended`, whether a query has."""
        leaving = [outlet for outlet in self._names if outlet.failure is not None]
        self._go(leaving)
        if ended:
            over = [
                outlet
                for outlet in self._names
                if all(each.ingest.ended for each in self._run.graph.queries[outlet].sources)
            ]
            self._go(over)
            leaving += over
        return bool(leaving)

    def _go(self, leaving: Iterable[IsolatedOutlet]) -> None:
        for outlet in leaving:
            state = "ended" if outlet.failure is None else "failed"
            self._leave(self._entries[self._names[outlet]], state, outlet.failure)

    def close(self) -> None:
        """The engine stops: what has been released is written, and nothing follows."""
        for entry in self._entries.values():
            if entry.state == "running":
                self._leave(entry, "stopped", None)

    def _leave(self, entry: _Entry, state: str, error: BaseException | None) -> None:
        entry.account = self._run.drop(entry.outlet)
        del self._names[entry.outlet]
        entry.state, entry.error = state, error
        if error is None:
            entry.outlet.end()
            error = entry.outlet.failure
        try:
            if entry.on_close is not None:
                entry.on_close(error)
        except Exception as failure:
            error = error or failure
        if error is not None and entry.error is None:
            entry.error = error
            entry.state = "failed" if state == "ended" else state

    # --- how they are doing ----------------------------------------------------------------------

    @property
    def names(self) -> Mapping[Outlet, str]:
        """Of those that run."""
        return dict(self._names.items())

    @property
    def running(self) -> list[str]:
        return list(self._names.values())

    def status(self) -> list[QueryStatus]:
        return [self._status(entry) for entry in self._entries.values()]

    def _status(self, entry: _Entry) -> QueryStatus:
        runs = entry.state == "running"
        return QueryStatus(
            entry.name,
            entry.state,
            None if entry.error is None else str(entry.error),
            entry.account or self._run.account(entry.outlet),
            entry.outlet.written,
            self._run.open_results(entry.outlet).count if runs else 0,
        )

    def error(self, name: str) -> BaseException | None:
        return self._entry(name).error

    def _entry(self, name: str) -> _Entry:
        return self._entries[name] if name in self._entries else self.refuse(name)

    def refuse(self, name: str) -> NoReturn:
        close = nearest(name, self._entries)
        raise EngineError(
            f"no query called {name!r} is running", hint=close[0] if close else "SHOW QUERIES"
        )
