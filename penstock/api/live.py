"""A live engine: queries are created, altered and dropped in SQL while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.api.explanation import Explanation
from penstock.api.listing import list_running
from penstock.api.query import Query
from penstock.api.stalls import explain_stall
from penstock.engine.live import LiveEngine
from penstock.engine.live_status import QueryStatus
from penstock.engine.overload import Overload
from penstock.engine.status import GraphStatus
from penstock.errors import BindError, EngineError, RunError
from penstock.language.binding.select import bind_query
from penstock.language.parse import parse_script, pointing_into
from penstock.language.syntax import AlterQuery, CreateQuery, Drop, Name, Show, Statement
from penstock.plan.query import QueryPlan
from penstock.plan.stateless import Scan
from penstock.runs.answer import Account
from penstock.runs.delivery import Delivery
from penstock.runs.isolated import IsolatedOutlet
from penstock.runs.options import RunOptions
from penstock.runs.targets import SinkLike
from penstock.sinks.callback import Callback
from penstock.sinks.kept import Kept
from penstock.sinks.subscribers import Subscribers

if TYPE_CHECKING:
    from penstock.api.database import Database


class Live:
    """The queries that CREATE QUERY has started.  Everything here may be called from any thread but
    the one that hands rows to functions: what is asked for is done between two steps."""

    def __init__(self, database: Database, overload: str = "block") -> None:
        setting = database.setting
        if setting.engine != "local":
            raise EngineError(
                f"queries come and go on the local engine, and this is {setting.engine}",
                hint="connect('local')",
            )
        self._database = database
        self._setting = setting
        self._numbers = count(1)
        self._subscribers: dict[str, Subscribers] = {}
        self._plans: dict[str, QueryPlan] = {}
        self._turn = threading.RLock()  # names are looked up and taken by one at a time
        self._engine = LiveEngine(
            setting.clock, setting.strict, setting.scheduling, Overload.of(overload)
        )
        self._engine.start()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- SQL -------------------------------------------------------------------------------------

    def sql(
        self, text: str, sink: SinkLike | None = None, *, rows: bool = False, **parameters: Any
    ) -> LiveQuery | Explanation | None:
        """Carry out a script; the result is that of its last statement.  CREATE QUERY starts a
        query at once.  SELECT starts one without a name, whose rows go to `sink` as in `Query.run`,
        or are kept.  `:name` in the text stands for the value of that parameter."""
        result: LiveQuery | Explanation | None = None
        for statement in parse_script(text, parameters):
            with pointing_into(text), self._turn:
                result = self._execute(statement, text, sink, rows)
        return result

    def _execute(
        self, statement: Statement, text: str, sink: SinkLike | None, rows: bool
    ) -> LiveQuery | Explanation | None:
        catalog = self._database.catalog
        match statement:
            case CreateQuery():
                name = statement.name
                catalog.refuse_taken(name.text, name.span)
                bound = bind_query(statement.query, catalog)
                into = None if statement.into is None else self._place(statement.into)
                self._begin(name.text, Query(bound, text, self._setting, name.text), into)
                catalog.add_query(name.text, bound, name.span)
            case Drop("QUERY", name) if self._known(name.text) is not None:
                self._engine.drop(self._forget(name.text))
                if name.text.casefold() in catalog.queries:
                    catalog.drop_query(name.text, name.span)
            case AlterQuery(name, setting, value):
                self._engine.alter(self._name(name.text), setting.text, value.text)
            case Show("QUERIES"):
                return list_running(self.status())
            case _:
                result = self._database.execute(statement, text)
                if isinstance(result, Query):
                    return self._select(result, sink, rows)
                return result
        return None

    def _select(self, query: Query, sink: SinkLike | None, rows: bool) -> LiveQuery:
        name = f"select {next(self._numbers)}"
        kept = Kept("rows")
        self._begin(name, query, kept if sink is None else sink, rows)
        return LiveQuery(self, name, kept)

    def _begin(self, name: str, query: Query, sink: SinkLike | None, rows: bool = False) -> None:
        with ExitStack() as failing:
            delivery = failing.enter_context(Delivery(RunOptions(), rows))
            (target,) = delivery.targets([[Subscribers() if sink is None else sink, None, None]])
            fan = target.rows if isinstance(target.rows, Subscribers) else Subscribers(target.rows)
            outlet = IsolatedOutlet(query.plan, fan)
            self._engine.add(name, query.physical, outlet, _closing(delivery))
            failing.pop_all()
        self._subscribers[name], self._plans[name] = fan, query.plan

    def _place(self, into: Name) -> str:
        """The file that rows go to, which is where the database may read as well if not everything
        is allowed.  The files of a directory would appear at the end of epochs, and a live engine
        has none."""
        base = self._database.base or Path.cwd()
        if into.text.endswith("/") or not Path(into.text).suffix or (base / into.text).is_dir():
            raise BindError(
                f"{into.text!r} names a directory",
                span=into.span,
                expected="a file, whose ending tells the format",
                hint="INTO 'rows.jsonl'",
            )
        allowed = self._database.allowed
        if allowed is not None and not allowed.file(base / into.text):
            raise BindError(
                f"{into.text!r} may not be written",
                span=into.span,
                expected=f"what is allowed: {allowed}",
            )
        return str(base / into.text)

    # --- rows ------------------------------------------------------------------------------------

    def subscribe(
        self, name: str, callback: Callable[[Any], object], *, rows: bool = False
    ) -> Callable[[], None]:
        """Hand a function what a query gives out from now on: every batch, or every row.  The
        answer ends that when it is called.  If the function fails, so does the query."""
        fan = self._subscribers[self._name(name)]
        leave = self._engine.ask(lambda: fan.subscribe(Callback(callback, rows)))
        return lambda: self._engine.ask(leave)

    # --- how it is doing -------------------------------------------------------------------------

    def status(self) -> list[QueryStatus]:
        return self._engine.status()

    def graph_status(self) -> GraphStatus:
        """The nodes and arcs of the graph that all queries share."""
        return self._engine.graph_status()

    def explain_stall(self, name: str) -> str:
        """Which source holds back the oldest window of a query that is still open."""
        name = self._name(name)
        scans = [node for node in self._plans[name].walk() if isinstance(node, Scan)]
        streams = {scan.stream.name: scan.stream for scan in scans}
        return explain_stall(self._engine.sources(name), streams)

    def wait(self, name: str | None = None, timeout: float | None = None) -> bool:
        """Until a query, or all of them, have ended or failed; whether they have, within so many
        seconds."""
        return self._engine.wait(None if name is None else self._name(name), timeout)

    def stop(self) -> None:
        """Read no further; what has been released is written."""
        self._engine.stop()

    @property
    def active(self) -> bool:
        return self._engine.active

    # --- names -----------------------------------------------------------------------------------

    def _known(self, name: str) -> str | None:
        folded = name.casefold()
        return next((each for each in self._plans if each.casefold() == folded), None)

    def _name(self, name: str) -> str:
        """As it was written, whatever its case here; the engine refuses one that it does not
        know."""
        return self._known(name) or self._engine.refuse(name)

    def _forget(self, name: str) -> str:
        known = self._name(name)
        del self._plans[known], self._subscribers[known]
        return known

    def drop(self, name: str) -> Account:
        """A query leaves; what became of the tuples that it has read."""
        with self._turn:
            known = self._forget(name)
            self._database.catalog.queries.pop(known.casefold(), None)
            return self._engine.drop(known)

    def error(self, name: str) -> BaseException | None:
        """What has stopped a query."""
        return self._engine.error(self._name(name))

    def __repr__(self) -> str:
        state = "running" if self.active else "stopped"
        return f"<penstock.Live {state}, {len(self._plans)} queries>"


class LiveQuery:
    """A SELECT at work beside the program."""

    def __init__(self, live: Live, name: str, kept: Kept) -> None:
        self._live = live
        self._kept = kept
        self.name = name

    def wait(self, timeout: float | None = None) -> bool:
        """Until its streams end; whether they have, within so many seconds."""
        over = self._live.wait(self.name, timeout)
        error = self._live.error(self.name)
        if error is not None:
            raise RunError(f"query {self.name} has failed: {error}") from error
        return over

    def stop(self) -> Account:
        return self._live.drop(self.name)

    @property
    def table(self) -> pa.Table:
        """The rows so far, if no sink takes them: the first 10,000."""
        return self._kept.table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows so far."""
        return iter(self.table.to_pylist())


def _closing(delivery: Delivery) -> Callable[[BaseException | None], None]:
    def close(error: BaseException | None) -> None:
        delivery.__exit__(type(error) if error else None, error, None)

    return close
