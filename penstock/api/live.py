"""Live engines, on which queries are created, altered and dropped in SQL while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.api.display import Explanation, explain_stall, list_running
from penstock.api.live_state import (
    NOWHERE,
    Fans,
    LiveOutputs,
    RememberingCatalog,
    Restored,
    Sinks,
    bound_again,
    check_apart,
    check_can_come_back,
    closing,
    definition_of,
    places_of,
    refuse_to_drop,
    streams_again,
    text_of,
)
from penstock.api.query import Query
from penstock.api.statements import refuse_lost
from penstock.errors import EngineError, PenstockError, RunError, SinkError, Span
from penstock.io.sinks.sink import Backlog, Callback, Kept, QueuePolicy, SubscriberQueue, rows_of
from penstock.local.live.engine import Altering, LiveEngine
from penstock.local.live.queries import Definition, Lasting, QueryRecord, QueryStatus
from penstock.local.scheduling.reading import Overload
from penstock.local.status import GraphStatus
from penstock.plan.identity import SourceText
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.runs.answer import Account
from penstock.runs.delivery import Delivery, SinkLike, check_places
from penstock.runs.run_options import RunOptions
from penstock.sql.binder.select import bind_query
from penstock.sql.parser.statements import parse_script, pointing_at, pointing_into
from penstock.sql.syntax import AlterQuery, CreateQuery, CreateStream, Drop, Show, Statement

if TYPE_CHECKING:
    from penstock.api.database import Database


class LiveQuery:
    """A SELECT at work beside the program."""

    def __init__(self, live: Live, name: str, kept: Kept) -> None:
        self._live = live
        self._kept = kept
        self.name = name

    def wait(self, timeout: float | None = None) -> bool:
        """Until its streams end, and its sink has got everything; whether it is so within so many
        seconds."""
        over = self._live.wait(self.name, timeout)
        self._raise_if_failed(self._live.error(self.name))
        return over

    def explain_stall(self) -> str:
        """Which source holds back its oldest window that is still open."""
        return self._live.explain_stall(self.name)

    def stop(self, *, drain: bool = True) -> Account:
        """It leaves; whoever has not waited for it hears here that it has failed.  What waits for
        its sink is handed over first, unless `drain` is false: then it is gone."""
        error = self._live.error(self.name)
        account = self._live.drop(self.name, drain=drain)
        self._raise_if_failed(error)
        return account

    def _raise_if_failed(self, error: BaseException | None) -> None:
        if error is not None:
            kind = "" if isinstance(error, PenstockError) else f"{type(error).__name__}: "
            raise RunError(f"query {self.name} has failed: {kind}{error}") from error

    @property
    def table(self) -> pa.Table:
        """The rows so far, if no sink takes them: the first 10,000."""
        return self._kept.table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows so far.  A time that `datetime` cannot hold is an ISO 8601 text."""
        return (row for batch in self.table.to_batches() for row in rows_of(batch))


# The live engine.


class Live:
    """The queries that CREATE QUERY has started.  Everything here may be called from any thread but
    the one that hands rows to functions: what is asked for is done between two steps.  With a
    `checkpoint`, all that a script has changed is saved when `sql` returns."""

    def __init__(
        self,
        database: Database,
        overload: str = "block",
        checkpoint: Path | None = None,
        every: int | None = None,
        threads: int = 1,
    ) -> None:
        setting = database.setting
        if setting.engine != "local":
            raise EngineError(
                f"queries come and go on the local engine, and this is {setting.engine}",
                hint="connect('local')",
            )
        self._database = database
        self._setting = setting
        self._numbers = count(1)
        self._fans: dict[str, Fans] = {}
        self._plans: dict[str, QueryPlan] = {}
        self._named: dict[str, QueryPlan] = {}  # those that the database can name
        self._outputs = LiveOutputs(database, checkpoint is not None)
        self._restored = Restored()
        self._turn = threading.RLock()  # names are looked up and taken by one at a time
        self._engine = LiveEngine(
            setting.clock,
            setting.strict,
            setting.scheduling,
            Overload.of(overload),
            checkpoint,
            every,
            threads,
        )
        try:
            self._bring_back()
            self._engine.start()
        except BaseException:
            self._engine.give_up()
            self._free(*self._plans)
            raise

    def _bring_back(self) -> None:
        """Restore the queries of the checkpoint, and those of their streams that SQL has made."""
        database, kept = self._database, self._engine.kept
        for record in kept.records() if kept is not None else []:
            self._restored.streams |= streams_again(record, database)
            source = record.definition.text
            bound = bound_again(source, record.name, database)
            into = self._outputs.places(places_of(source), record.name)
            query = Query(bound, source.text, self._setting, record.name)
            self._begin(record.name, query, into, record=record)
            self._take(record.name, bound, source)
            self._restored.queries[record.name.casefold()] = (bound, into)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.stop(drain=error is None)  # a subscriber may be what it is about

    # SQL: scripts that create, alter and drop queries.

    def sql(
        self,
        text: str,
        sink: SinkLike | None = None,
        *,
        late: SinkLike | None = None,
        rejected: SinkLike | None = None,
        rows: bool = False,
        overload: str = "block",
        **parameters: Any,
    ) -> LiveQuery | Explanation | None:
        """Carry out a script; the result is that of its last statement.  CREATE QUERY starts a
        query at once.  SELECT starts one without a name, whose rows go to `sink` as in `Query.run`,
        or are kept; its late and rejected ones to sinks of their own.  Sinks that are functions or
        objects of the program have queues, and `overload` says what happens when they are too slow,
        as in `subscribe`.  `:name` in the text stands for the value of that parameter."""
        self._engine.refuse_at_work()  # before taking the lock, which would be waited for
        result: LiveQuery | Explanation | None = None
        changed, policy = False, QueuePolicy.of(overload)
        dropped: list[Backlog] = []
        try:
            statements = parse_script(text, parameters)
            with pointing_into(text):
                refuse_lost(statements)
            with self._engine.opening() if len(statements) > 1 else nullcontext():
                for statement in statements:
                    with pointing_into(text), self._turn:
                        sinks = (sink, late, rejected)
                        result = self._execute(statement, text, sinks, rows, policy, dropped)
                        changed |= isinstance(statement, CreateQuery | AlterQuery | Drop)
        finally:
            if changed:
                self._engine.save()
        for backlog in dropped:
            _finish(backlog, drain=True)
        return result

    def _execute(
        self,
        statement: Statement,
        text: str,
        sinks: Sinks,
        rows: bool,
        policy: QueuePolicy,
        dropped: list[Backlog],
    ) -> LiveQuery | Explanation | None:
        match statement:
            case CreateQuery():
                self._create(statement, text)
            case CreateStream() if self._restored.has_stream(statement, self._database):
                pass
            case Drop("QUERY", name) if self._known(name.text) is not None:
                dropped.append(self._fans[self._name(name.text)].backlog)
                self._engine.drop(self._forget(name.text))
                self._engine.save()  # its results, before another query may write to its place
            case AlterQuery():
                self._alter(statement)
            case Show("QUERIES"):
                return list_running(self.status())
            case _:
                result = self._database.execute(statement, text)
                if isinstance(result, Query):
                    return self._select(result, sinks, rows, policy)
                return result
        return None

    def _create(self, statement: CreateQuery, text: str) -> None:
        catalog, name = self._database.catalog, statement.name
        reading = RememberingCatalog.of(catalog)
        if self._restored.has_query(statement, catalog, self._outputs.paths):
            return
        check_apart(statement.into)
        catalog.refuse_taken(name.text, name.span)
        bound = bind_query(statement.query, reading)
        source = text_of(statement, text, reading)
        if self._engine.kept is not None:
            check_can_come_back(source, name)
        definition = definition_of(bound, source, catalog)
        into = self._outputs.places(statement.into, name.text)
        query = Query(bound, text, self._setting, name.text)
        self._begin(name.text, query, into, definition=definition)
        self._take(name.text, bound, source, name.span)

    def _alter(self, statement: AlterQuery) -> None:
        with pointing_at(statement.name.span):
            name = self._name(statement.name.text)
            self._engine.refuse_over(name)
        with pointing_at(statement.setting.span):
            setting = Altering.check(statement.setting.text)
        with pointing_at(statement.value.span):
            self._engine.alter(name, setting, statement.value.text)

    def _select(self, query: Query, sinks: Sinks, rows: bool, policy: QueuePolicy) -> LiveQuery:
        name = f"select {next(self._numbers)}"
        kept = Kept("rows")
        sink, late, rejected = sinks
        try:
            given = (kept if sink is None else sink, late, rejected)
            self._begin(name, query, given, rows, policy)
        except KeyboardInterrupt:  # it may run already, but the caller has no name for it
            self._plans.pop(name, None)
            fans = self._fans.pop(name, None)
            with suppress(PenstockError, KeyError):
                self._engine.drop(name)
            if fans is not None:
                fans.backlog.finish(drain=False)
            raise
        return LiveQuery(self, name, kept)

    def _begin(
        self,
        name: str,
        query: Query,
        sinks: Sinks,
        rows: bool = False,
        policy: QueuePolicy | None = None,
        *,
        definition: Definition | None = None,
        record: QueryRecord | None = None,
    ) -> None:
        """Start a query. With a checkpoint, one that has a `definition` is saved; a `record` is
        what was saved of it."""
        kept = self._engine.kept if definition is not None or record is not None else None
        number = record.number if record is not None else kept.next_number if kept else 0
        if record is None:
            check_places([query.plan], [sinks])
            self._outputs.refuse_taken(name, sinks)
        elif record.is_over:
            sinks = NOWHERE  # nothing more comes
        with ExitStack() as failing:
            ledger, prefix = (None, "") if kept is None else (kept.ledger, f"{number}/")
            options = RunOptions()
            delivery = failing.enter_context(Delivery(options, rows, ledger=ledger, name=prefix))
            fans = Fans.of(sinks, delivery, query.plan, policy or QueuePolicy())
            outlet = fans.outlet(query.plan)
            # state is of the plan that it was saved for, whatever rules there are by now
            rules = None if record is None else record.simplified
            plan = self._setting.planned(query.plan, rules)
            if record is not None:
                self._engine.restore(record, plan, outlet, closing(delivery))
            else:
                lasting = definition and kept and Lasting(kept.take_number(), definition)
                self._engine.add(name, plan, outlet, closing(delivery), lasting or None)
            failing.pop_all()
        self._fans[name], self._plans[name] = fans, query.plan
        self._outputs.take(name, sinks)

    # Subscribers.

    def subscribe(
        self,
        name: str,
        callback: Callable[[Any], object],
        *,
        rows: bool = False,
        of: str = "rows",
        overload: str = "block",
    ) -> Callable[[], None]:
        """Hand a function what a query gives out from now on: every batch, or every row; `of` its
        "rows", of what was "late", or "rejected".  The answer ends that when it is called.  If the
        function fails, so does the query.

        The function is called in a thread of its own, and what it has not got yet waits in a queue
        of its own.  `overload` is what happens when too much waits: with "block" (10,000 rows, or
        as many as "block 500" says) the query reads no further until there is room, nor do others
        that share a reading of a stream with it; with "drop-oldest 500" so many rows may wait, and
        those that have waited longest are dropped and counted."""
        policy = QueuePolicy.of(overload)
        if not callable(callback):
            raise SinkError(
                f"a {type(callback).__name__} cannot be handed rows",
                expected="a function that takes a batch, or with rows=True a row",
            )
        known = self._name(name)
        fans = self._fans[known]
        fan = fans.side(of)
        refuse_to_drop(policy, self._plans[known], of)
        queue = SubscriberQueue(Callback(callback, rows), policy, fans.backlog)
        leave = self._engine.ask(lambda: fan.subscribe(queue))
        return lambda: self._engine.ask(leave)

    # Pausing.

    def pause(self, *names: str) -> None:
        """Some queries, or all of them, read no further until they are resumed.  Queries that share
        a reading of a stream can only be paused together."""
        self._engine.pause([self._name(name) for name in names], True)
        self._engine.save()

    def resume(self, *names: str) -> None:
        self._engine.pause([self._name(name) for name in names], False)
        self._engine.save()

    # Status.

    def status(self) -> list[QueryStatus]:
        return self._engine.status()

    def graph_status(self) -> GraphStatus:
        """The nodes and arcs of the graph that all queries share."""
        return self._engine.graph_status()

    def explain_schedule(self, name: str | None = None) -> str:
        """By which rule the engine goes from each operator of the graph, or of one query, to the
        next as it is now: whatever EXPLAIN SCHEDULE has said before ALTER QUERY."""
        return str(self._engine.state_table(None if name is None else self._name(name)))

    def explain_stall(self, name: str) -> str:
        """Which source holds back the oldest window of a query that is still open."""
        name = self._name(name)
        if self._engine.is_paused(name):
            return f"query {name} is paused; ALTER QUERY {name} SET PAUSED FALSE lets it go on"
        backlog = self._fans[name].backlog
        if backlog.full:
            return (
                f"query {name} waits for a subscriber that has {backlog.waiting:,} rows to handle"
            )
        scans = [node for node in self._plans[name].walk() if isinstance(node, Scan)]
        streams = {scan.stream.name: scan.stream for scan in scans}
        return explain_stall(self._engine.sources(name), streams)

    def wait(self, name: str | None = None, timeout: float | None = None) -> bool:
        """Until a query, or all of them, have ended or failed, and subscribers have got everything;
        whether it is so within so many seconds."""
        return self._engine.wait(None if name is None else self._name(name), timeout)

    def stop(self, *, final: bool = False, drain: bool = True) -> None:
        """Read no further; what has been released is written.  What is open stays open in the
        checkpoint, or is gone.  If this is `final`, it is given out as if the streams had ended:
        with a checkpoint, tuples of the windows that were closed are late from then on.  What waits
        for subscribers is handed to them first, unless `drain` is false: then it is gone.  The
        names of its queries are free again in the database."""
        try:
            self._engine.stop(final, drain)
        finally:
            if not self.active:  # a callback may not stop it
                self._free(*self._plans)

    @property
    def active(self) -> bool:
        return self._engine.active

    # Names of queries.

    def _known(self, name: str) -> str | None:
        folded = name.casefold()
        return next((each for each in self._plans if each.casefold() == folded), None)

    def _name(self, name: str) -> str:
        """The name of a query as it was written, in whatever case it is given; an unknown one is
        refused."""
        return self._known(name) or self._engine.refuse(name)

    def _forget(self, name: str) -> str:
        known = self._name(name)
        self._free(known)
        del self._plans[known], self._fans[known]
        self._outputs.forget(known)
        self._restored.queries.pop(known.casefold(), None)
        return known

    def _take(
        self, name: str, query: QueryPlan, source: SourceText, span: Span | None = None
    ) -> None:
        catalog = self._database.catalog
        catalog.add_query(name, query, span)
        catalog.texts[name.casefold()] = source
        self._named[name] = query

    def _free(self, *names: str) -> None:
        """Make names of queries available again in the database; after a stop, one may have been
        taken again, and stays."""
        catalog = self._database.catalog
        with self._turn:
            for name in names:
                query = self._named.pop(name, None)
                _, found = catalog.queries.get(name.casefold(), (name, None))
                if query is not None and found is query:
                    catalog.drop_query(name)

    def drop(self, name: str, *, drain: bool = True) -> Account:
        """A query leaves; what became of the tuples that it has read.  What waits for its
        subscribers is handed to them first, unless `drain` is false: then it is gone."""
        self._engine.refuse_at_work()
        with self._turn:
            backlog = self._fans[self._name(name)].backlog
            account = self._engine.drop(self._forget(name))
        self._engine.save()
        _finish(backlog, drain)
        return account

    def error(self, name: str) -> BaseException | None:
        """What has stopped a query."""
        return self._engine.error(self._name(name))

    def __repr__(self) -> str:
        state = "running" if self.active else "stopped"
        return f"<penstock.Live {state}, {len(self._plans)} queries>"


def _finish(backlog: Backlog, drain: bool) -> None:
    """Finish the queues of a query that has left; raise what a subscriber fails with meanwhile."""
    known = backlog.failure
    backlog.finish(drain)
    if known is None and backlog.failure is not None:
        raise backlog.failure
