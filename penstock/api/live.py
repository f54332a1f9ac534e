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
    """A SELECT that runs on a live engine; `Live.sql` makes one.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"n": 1}, {"n": 5}])
    >>> with db.live() as live:
    ...     large = live.sql("SELECT n FROM s WHERE n > 3")
    ...     large.wait()
    ...     list(large)
    ...     large.stop()
    True
    [{'n': 5}]
    Account(read=2, late=0, rejected=0)
    """

    def __init__(self, live: Live, name: str, kept: Kept) -> None:
        self._live = live
        self._kept = kept
        self.name = name

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the streams of the query have ended and its sink has got all rows.

        Args:
            timeout: Seconds to wait at most; None: without limit.

        Returns:
            False if the time was over first.  An error of the query is raised.
        """
        over = self._live.wait(self.name, timeout)
        self._raise_if_failed(self._live.error(self.name))
        return over

    def explain_stall(self) -> str:
        """Name the source that holds back the oldest open window."""
        return self._live.explain_stall(self.name)

    def stop(self, *, drain: bool = True) -> Account:
        """Remove the query from the engine, and return its account.  An error of the query is
        raised.

        Args:
            drain: Pass the rows that wait for its sink first; False: they are dropped.
        """
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
        """Yield the rows so far.  A time that `datetime` cannot hold is an ISO 8601 text."""
        return (row for batch in self.table.to_batches() for row in rows_of(batch))


# The live engine.


class Live:
    """An engine on which queries are created, altered and dropped while others run; `Database.live`
    makes one.

    Methods may be called from any thread except from callbacks that get rows; they take effect
    between two steps of the engine.  With a checkpoint, all changes of a script are saved when
    `sql` returns.

    >>> import penstock as ps
    >>> db = ps.connect()
    >>> db.stream("s", [{"n": 1}, {"n": 5}])
    >>> with db.live() as live:
    ...     live.sql("CREATE QUERY large AS SELECT n FROM s WHERE n > 3")
    ...     live.wait("large")
    ...     [(each.name, each.state, each.written) for each in live.status()]
    True
    [('large', 'ended', 1)]
    """

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
            self._restore()
            self._engine.start()
        except BaseException:
            self._engine.give_up()
            self._release_names(*self._plans)
            raise

    def _restore(self) -> None:
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
        """Execute a script, and return the result of its last statement.

        CREATE QUERY starts a query at once; SELECT starts one without a name.

        Args:
            text: Statements, separated by semicolons.
            sink: A sink for the rows of a SELECT, as in `Query.run`; None: they are kept.
            late: A sink for its late tuples.
            rejected: A sink for its rejected rows.
            rows: Call functions with every row, as a dictionary, instead of every batch.
            overload: What happens when a sink of the program is too slow, as in `subscribe`.
            **parameters: Values for `:name` in the text, which are bound and never become text.

        Returns:
            A `LiveQuery` for a SELECT; an explanation for EXPLAIN, SHOW and DESCRIBE; None for
            other statements.

        >>> import penstock as ps
        >>> db = ps.connect()
        >>> db.stream("s", [{"n": 1}, {"n": 5}])
        >>> with db.live() as live:
        ...     live.sql("SELECT n FROM s WHERE n > :low", print, rows=True, low=3).wait()
        {'n': 5}
        True
        """
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
                self._engine.drop(self._remove_query(name.text))
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
        """Call a function with the results of a query from now on.

        The function runs in a thread of its own; results that it has not got yet wait in a queue of
        its own.  If it fails, so does the query.

        Args:
            name: The query.
            callback: A function of a record batch.
            rows: Call it with every row, as a dictionary, instead of every batch.
            of: "rows", "late" tuples or "rejected" rows.
            overload: What happens when the queue is full.  "block" (10,000 rows, or 500 with "block
                500"): the query reads no further until there is room, nor do others that share a
                reading of a stream with it; "drop-oldest 500": the oldest rows are dropped and
                counted.

        Returns:
            A function that ends the subscription.

        >>> import penstock as ps
        >>> db, found = ps.connect(), []
        >>> with db.live() as live:
        ...     live.sql("CREATE STREAM s (n INT) FROM VALUES (1), (5)")
        ...     live.sql("CREATE QUERY q AS SELECT n FROM s; ALTER QUERY q SET PAUSED TRUE")
        ...     leave = live.subscribe("q", found.append, rows=True)
        ...     live.resume("q")
        ...     live.wait("q")
        True
        >>> found
        [{'n': 1}, {'n': 5}]
        """
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
        """Stop reading for queries until they are resumed.

        Queries that share a reading of a stream can only be paused together.

        Args:
            *names: The queries; none: all of them.
        """
        self._engine.pause([self._name(name) for name in names], True)
        self._engine.save()

    def resume(self, *names: str) -> None:
        """Continue queries that are paused.

        Args:
            *names: The queries; none: all of them.
        """
        self._engine.pause([self._name(name) for name in names], False)
        self._engine.save()

    # Status.

    def status(self) -> list[QueryStatus]:
        """Status of every query: its state, its account, and what waits for its subscribers."""
        return self._engine.status()

    def graph_status(self) -> GraphStatus:
        """Status of the nodes and arcs of the graph that all queries share."""
        return self._engine.graph_status()

    def explain_schedule(self, name: str | None = None) -> str:
        """Explain by which rule the engine goes from each operator to the next, as the graph is
        now.

        EXPLAIN SCHEDULE does not know of a later ALTER QUERY; this does.

        Args:
            name: The query; None: the whole graph.
        """
        return str(self._engine.state_table(None if name is None else self._name(name)))

    def explain_stall(self, name: str) -> str:
        """Name the source that holds back the oldest open window of a query.

        Args:
            name: The query.
        """
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
        """Wait until queries have ended or failed, and their subscribers have got all rows.

        Args:
            name: The query; None: all of them.
            timeout: Seconds to wait at most; None: without limit.

        Returns:
            False if the time was over first.
        """
        return self._engine.wait(None if name is None else self._name(name), timeout)

    def stop(self, *, final: bool = False, drain: bool = True) -> None:
        """Stop reading, write the results that have been released, and end the engine.

        Open windows stay open in the checkpoint, or are dropped without one.  The names of the
        queries are available again in the database.

        Args:
            final: Close all windows, as if the streams had ended; with a checkpoint, tuples of
                these windows are late from then on.
            drain: Pass the rows that wait for subscribers first; False: they are dropped.
        """
        try:
            self._engine.stop(final, drain)
        finally:
            if not self.active:  # a callback may not stop it
                self._release_names(*self._plans)

    @property
    def active(self) -> bool:
        """Whether the engine is running."""
        return self._engine.active

    # Names of queries.

    def _known(self, name: str) -> str | None:
        folded = name.casefold()
        return next((each for each in self._plans if each.casefold() == folded), None)

    def _name(self, name: str) -> str:
        """The name of a query as it was written, in whatever case it is given; an unknown one is
        refused."""
        return self._known(name) or self._engine.refuse(name)

    def _remove_query(self, name: str) -> str:
        known = self._name(name)
        self._release_names(known)
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

    def _release_names(self, *names: str) -> None:
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
        """Remove a query, and return its account.

        Args:
            name: The query.
            drain: Pass the rows that wait for its subscribers first; False: they are dropped.
        """
        self._engine.refuse_at_work()
        with self._turn:
            backlog = self._fans[self._name(name)].backlog
            account = self._engine.drop(self._remove_query(name))
        self._engine.save()
        _finish(backlog, drain)
        return account

    def error(self, name: str) -> BaseException | None:
        """Return the error that has stopped a query, or None.

        Args:
            name: The query.
        """
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
