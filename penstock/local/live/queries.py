"""The queries of a live engine: their names and states, how they are paused, and what is saved of
them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import NamedTuple, NoReturn

from penstock.errors import EngineError, PenstockError, RunError, nearest
from penstock.io.sinks.sink import Backlog
from penstock.kernel.state import Tree
from penstock.local.graph.query_graph import QueryGraph
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph.topology import PlacedQuery, Placement
from penstock.local.run import LocalRun
from penstock.plan.identity import (
    SourceText,
    algorithms,
    check_algorithms,
    check_query,
    identity,
    without_windows,
)
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.runs.answer import Account, IsolatedOutlet, Outlet
from penstock.runs.lookup_tables import Tables


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Status of a query.  `state` is running, ended (its streams have come to their end) or failed,
    with the `error` that has stopped it.  `written` counts the rows of its result; of all rows that
    it has emitted, so many are `waiting` for subscribers, and others were `dropped` because there
    was no room for them."""

    name: str
    state: str
    error: str | None
    account: Account
    written: int
    open_windows: int
    waiting: int = 0
    dropped: int = 0


# Pausing: the sources of paused queries are held, so nothing is lost where a source can wait.
#
# Rows that have been read stay where they wait.  Files and data of the program are simply not read
# on; sockets and asynchronous rows wait as for a slow reader, or are dropped under the overload
# policy that drops rows.

_SAID = {"true": True, "false": False}


def is_to_pause(text: str) -> bool:
    found = _SAID.get(text.strip().lower())
    if found is None:
        raise EngineError(f"{text!r} does not say whether to pause", expected="TRUE or FALSE")
    return found


def hold(
    graph: QueryGraph, outlets: Collection[Outlet], names: Mapping[Outlet, str], held: bool
) -> None:
    """Hold the sources of some queries, or resume them.  A source that other queries read as well
    cannot be held for one and not for the other."""
    sources = {source: None for outlet in outlets for source in graph.queries[outlet].sources}
    for source in sources:
        others = [names[each] for each in source.outlets if each not in outlets]
        if others and source.held is not held:
            stream, verb = source.ingest.stream.name, "pause" if held else "resume"
            mine = [names[each] for each in outlets if each in source.outlets]
            shown = ", ".join(others[:3]) + (f" and {len(others) - 3:,} more" * (len(others) > 3))
            together = ", ".join(map(repr, (*mine, *others[:3])))
            raise EngineError(
                f"query {mine[0]} reads {stream} together with {shown}",
                expected=f"queries that share a reading to {verb} together",
                hint=f"live.{verb}({together}{', …' * (len(others) > 3)})",
            )
    for source in sources:
        source.held = held


# The record that a checkpoint has of a query: enough to restore it.


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """The lines that identify a stream or table, and the SQL that has created it, if it was SQL."""

    lines: list[str]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """The SQL of a query, and its streams by name."""

    text: SourceText
    streams: Mapping[str, StreamRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """The record of a query.  `number` tells queries apart that have had the same name.  Saved
    state depends on `identity` and `algorithms`; `kinds` are the operators, by the names of their
    nodes."""

    number: int
    name: str
    definition: Definition
    identity: list[str]
    algorithms: list[str]
    placement: Placement
    kinds: Mapping[str, str]
    simplified: list[str] | None = None  # by which rules its plan was; None: not remembered
    settings: Mapping[str, str] = field(default_factory=dict)
    state: str = "running"
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the query has failed, or was closed for good."""
        return self.error is not None or self.state == "ended"

    @property
    def where(self) -> dict[str, Tree]:
        """Fields about the place of the query in the graph; see `placed_as`."""
        return {
            "identity": self.identity,
            "algorithms": self.algorithms,
            "placement": self.placement,
            "kinds": self.kinds,
            "simplified": self.simplified,
        }

    def check(self, query: QueryPlan) -> None:
        """Check that the saved state is that of a query."""
        where = f"the saved state of query {self.name}"
        check_query(self.identity, identity(query), where)
        check_algorithms(
            without_windows(self.algorithms), without_windows(algorithms(query)), where
        )

    def save(self) -> Tree:
        return asdict(self)

    @staticmethod
    def load(saved: Tree) -> QueryRecord:
        defined = saved["definition"]
        streams = {name: StreamRecord(**each) for name, each in defined["streams"].items()}
        definition = Definition(SourceText.load(defined["text"]), streams)
        placement = Placement(**saved["placement"])
        return QueryRecord(**saved | {"definition": definition, "placement": placement})


def placed_as(placed: PlacedQuery) -> dict[str, Tree]:
    """Fields of a record about the place of a query in the graph."""
    query = placed.plan.query
    return {
        "identity": identity(query),
        "algorithms": algorithms(query),
        "placement": placed.placement,
        "kinds": kinds_of(placed),
        "simplified": list(placed.plan.simplified),
    }


def kinds_of(placed: PlacedQuery) -> dict[str, str]:
    """Kinds of the operators of a query, by the names of their nodes."""
    return {node.name: node.node.operator.value for node in placed.operators}


# Changes to the queries of a live engine since they were saved.


class CountedSoFar(NamedTuple):
    """Counts of a query, and the number of rows it has emitted.  `read` is relative to what its
    sources have read in all, so it stays constant while rows come."""

    read: int
    late: int
    rejected: int
    written: int

    @staticmethod
    def of(account: Account, written: int, read: int) -> CountedSoFar:
        return CountedSoFar(account.read - read, account.late, account.rejected, written)

    def account(self, read: int) -> Account:
        return Account(self.read + read, self.late, self.rejected)


@dataclass
class Unsaved:
    """Changes that have not been saved.  Queries are known by their numbers; `outlets` are those
    that have got rows."""

    outlets: dict[IsolatedOutlet, int] = field(default_factory=dict)
    records: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)  # restored, and over
    gone: list[int] = field(default_factory=list)
    came: list[PlacedQuery] = field(default_factory=list)
    left: list[PlacedQuery] = field(default_factory=list)

    def come(self, number: int, outlet: IsolatedOutlet, placed: PlacedQuery | None) -> None:
        """Note a query that is new or has another place; one that the store knows unchanged is not
        `placed`."""
        outlet.noted = partial(self.outlets.__setitem__, outlet, number)
        outlet.noted()
        self.records.add(number)
        if placed is not None:
            self.came.append(placed)

    def leave(self, number: int, placed: PlacedQuery) -> None:
        """Note a query that leaves, with the rows it has emitted, to which nothing is added."""
        outlet = placed.outlet
        assert isinstance(outlet, IsolatedOutlet)
        self.outlets[outlet] = number
        self.records.add(number)
        self.left.append(placed)

    @property
    def counting(self) -> Iterator[int]:
        """Numbers of the queries whose counts have changed, or that are gone."""
        yield from (*self.outlets.values(), *self.over, *self.gone)

    def clear(self) -> None:
        self.outlets.clear()
        self.records.clear()
        self.over.clear()
        self.gone.clear()
        self.came.clear()
        self.left.clear()


# The queries of a live engine by name: each is added, dropped, ends or fails independently.

OnClose = Callable[[BaseException | None], None]
"""Called when a query has stopped, with its error."""

_WORKING = ("running", "paused")


@dataclass(frozen=True, slots=True)
class Lasting:
    """The saved part of a query that survives restarts; `saved` is its record at the last
    restart."""

    number: int
    definition: Definition
    saved: QueryRecord | None = None


@dataclass
class _Entry:
    name: str
    outlet: IsolatedOutlet
    on_close: OnClose | None
    lasting: Lasting | None
    state: str = "running"
    error: BaseException | None = None
    account: Account | None = None  # when it no longer runs
    settings: dict[str, str] = field(default_factory=dict)
    where: Mapping[str, Tree] = field(default_factory=dict)  # in the graph, when it no longer runs


class LiveQueries:
    """The queries of a live engine.  `woken` is called when a worker has something to look at,
    `drained` when the subscribers of a query have got everything."""

    def __init__(
        self, run: LocalRun, woken: Callable[[], None], drained: Callable[[], None]
    ) -> None:
        self._run = run
        self._woken = woken
        self._drained = drained
        self._entries: dict[str, _Entry] = {}
        self._names: dict[IsolatedOutlet, str] = {}  # of those in the graph
        self._failing: list[IsolatedOutlet] = []  # whose sinks have failed
        # sources that have ended, by what; what they have delivered may still be waiting
        self.ended: dict[SourceNode, BaseException | None] = {}
        self._leaving: list[_Entry] = []  # what they have given out is not saved yet
        self._lasting: dict[int, _Entry] = {}  # by number
        self.unsaved = Unsaved()

    def add(
        self,
        name: str,
        plan: PhysicalPlan,
        outlet: IsolatedOutlet,
        tables: Tables,
        on_close: OnClose | None,
        lasting: Lasting | None = None,
    ) -> None:
        known = self._entries.get(name)
        if known is not None and known.outlet in self._names:
            raise EngineError(f"a query called {name!r} is running", hint="DROP QUERY first")
        saved = None if lasting is None else lasting.saved
        placement = None if saved is None else saved.placement.copy()
        moved = self._run.add(plan, outlet, lasting is not None, placement)
        for other, before in moved.items():
            self._moved(other, before)
        try:
            if saved is None:
                self._refuse_held(outlet)
            self._run.read_tables(tables)
        except BaseException:
            self._run.drop(outlet)
            raise
        entry = self._entries[name] = _Entry(name, outlet, on_close, lasting)
        self._names[outlet] = name
        if lasting is not None:
            self._lasting[lasting.number] = entry
            self.unsaved.come(lasting.number, outlet, None if saved else self._placed(entry))
        outlet.told = self._failing.append
        if outlet.backlog is not None:
            self._connect_backlog(outlet, outlet.backlog)

    def _connect_backlog(self, outlet: IsolatedOutlet, backlog: Backlog) -> None:
        """Connect the callbacks of a backlog, which subscribers call from threads of their own."""
        full = self._run.graph.full

        def on_full(is_full: bool) -> None:
            if is_full:
                full.add(outlet)
            elif outlet in full:
                full.discard(outlet)
                self._woken()

        def on_failure(error: BaseException) -> None:
            outlet.fail(error)
            self._woken()

        backlog.on_full, backlog.on_failure = on_full, on_failure
        backlog.on_drained = self._drained

    def add_over(self, outlet: IsolatedOutlet, record: QueryRecord, account: Account) -> None:
        """Restore a query that had failed or ended when it was saved: it can be seen, and
        dropped."""
        lasting = Lasting(record.number, record.definition, record)
        entry = self._entries[record.name] = _Entry(record.name, outlet, None, lasting)
        entry.state = record.state
        entry.error = None if record.error is None else RunError(record.error)
        entry.account, entry.settings = account, dict(record.settings)
        entry.where = record.where
        self._lasting[record.number] = entry
        self.unsaved.over.add(record.number)

    def _moved(self, outlet: Outlet, before: PlacedQuery) -> None:
        """Note that a query has got another place in the graph, for the sake of another one."""
        assert isinstance(outlet, IsolatedOutlet)
        entry = self._entries[self._names[outlet]]
        if entry.lasting is not None:
            self.unsaved.left.append(before)
            self.unsaved.come(entry.lasting.number, outlet, self._placed(entry))

    def _placed(self, entry: _Entry) -> PlacedQuery:
        return self._run.graph.queries[entry.outlet]

    def drop(self, name: str) -> Account:
        entry = self._entry(name)
        if entry.outlet in self._names:
            self._leave(entry, "dropped", None)
        del self._entries[name]
        if entry.lasting is not None:
            del self._lasting[entry.lasting.number]
            self.unsaved.gone.append(entry.lasting.number)
        if entry.error is not None and entry.state == "dropped":
            raise entry.error  # a sink that could not be closed
        assert entry.account is not None
        return entry.account

    def outlet(self, name: str) -> IsolatedOutlet:
        """Outlet of a query that runs; an error for any other."""
        entry = self._entry(name)
        if entry.outlet not in self._names:
            raise EngineError(f"query {name!r} has {entry.state}", hint="SHOW QUERIES")
        return entry.outlet

    def _refuse_held(self, outlet: IsolatedOutlet) -> None:
        """Reject a query over a stream that cannot be read twice and is held."""
        for source in self._run.graph.queries[outlet].sources:
            if source.held:
                paused = next(self._names[each] for each in self._names if each in source.outlets)
                raise EngineError(
                    f"{source.ingest.stream.name} is held, because query {paused} is paused",
                    hint=f"ALTER QUERY {paused} SET PAUSED FALSE",
                )

    def pause(self, names: Iterable[str], paused: bool) -> None:
        """Pause queries, or resume them."""
        entries = [self._entries[self._names[self.outlet(name)]] for name in names]
        hold(self._run.graph, {each.outlet: None for each in entries}, self.names, paused)
        for entry in entries:
            if entry.state in _WORKING:
                entry.state = "paused" if paused else "running"
            self.set(entry.name, "paused", str(paused).lower())

    def is_paused(self, name: str) -> bool:
        return self._entry(name).state == "paused"

    def set(self, name: str, setting: str, value: str) -> None:
        """Remember a setting of a query."""
        entry = self._entry(name)
        entry.settings[setting] = value
        if entry.lasting is not None:
            self.unsaved.records.add(entry.lasting.number)

    # --- ends and failures -----------------------------------------------------------------------

    def fail(self, outlets: Iterable[Outlet], error: BaseException) -> None:
        """Remove queries that cannot go on, with the error."""
        for outlet in list(outlets):
            assert isinstance(outlet, IsolatedOutlet)
            self._leave(self._entries[self._names[outlet]], "failed", error)

    @property
    def failing(self) -> bool:
        """Whether a sink has failed."""
        return bool(self._failing)

    def look(self, ended: bool) -> None:
        """Remove queries whose sinks have failed; and, if a source has `ended`, queries that have
        ended."""
        failing, self._failing[:] = list(self._failing), []
        self._leave_failed_or_ended([outlet for outlet in failing if outlet in self._names])
        self._fail_afterwards(failing)
        if ended:
            for outlet in [each for each in self._names if self._all(each, self._is_over)]:
                if self._all(outlet, _has_ended):
                    self._leave_failed_or_ended([outlet])
                else:
                    self._entries[self._names[outlet]].state = "caught up"

    def _fail_afterwards(self, failing: Iterable[IsolatedOutlet]) -> None:
        """Mark queries as failed that had ended before a subscriber failed with rows waiting for
        it."""
        for entry in self._entries.values():
            if entry.error is None and entry.outlet in failing:
                entry.state, entry.error = "failed", entry.outlet.failure
                if entry.lasting is not None:
                    self.unsaved.records.add(entry.lasting.number)

    def drained(self, name: str | None) -> bool:
        """Whether subscribers have got all rows that a query, or any, has emitted."""
        some = self._entries.values() if name is None else [self._entries.get(name)]
        return all(
            each is None or each.outlet.backlog is None or each.outlet.backlog.drained
            for each in list(some)
        )

    def drain(self, wait: bool) -> None:
        """Wait, after the last row, until subscribers have got everything; or discard what
        waits."""
        for entry in list(self._entries.values()):
            if entry.outlet.backlog is not None:
                entry.outlet.backlog.finish(wait)
        self.look(ended=False)

    def _is_over(self, source: SourceNode) -> bool:
        """Whether a source has ended and all that followed from it has left: another thread may
        have been interrupted at work on it."""
        over = source.ingest.ended or source.exhausted
        return over and not self._run.graph.component_of(source).busy

    def end(self, sources: Iterable[SourceNode]) -> None:
        """End the queries of ended sources, of which all rows are in the results."""
        for source in sources:
            failure = self.ended.pop(source, None)
            if failure is not None:
                self.fail(source.outlets, failure)
        self.look(ended=True)

    def _all(self, outlet: Outlet, says: Callable[[SourceNode], bool]) -> bool:
        return all(says(each) for each in self._run.graph.queries[outlet].sources)

    def _leave_failed_or_ended(self, leaving: Iterable[IsolatedOutlet]) -> None:
        for outlet in leaving:
            state = "ended" if outlet.failure is None else "failed"
            self._leave(self._entries[self._names[outlet]], state, outlet.failure)

    def close(self) -> None:
        """Close all queries when the engine stops: what has been released is written, and nothing
        follows."""
        self.close_saved()
        for outlet, name in list(self._names.items()):  # no thread works on the graph any more
            entry = self._entries[name]
            entry.account, entry.state = self._run.total(outlet), "stopped"
            del self._names[outlet]
            self._close(entry)

    def _leave(self, entry: _Entry, state: str, error: BaseException | None) -> None:
        if entry.lasting is not None:
            placed = self._placed(entry)
            entry.where = placed_as(placed)
            self._leaving.append(entry)
            self.unsaved.leave(entry.lasting.number, placed)
        entry.account = self._run.drop(entry.outlet)
        del self._names[entry.outlet]
        entry.state, entry.error = state, error
        if entry.lasting is None:
            self._close(entry)

    def close_saved(self) -> list[BaseException]:
        """Close the queries that have left, after their rows have been saved, and return the errors
        of sinks of dropped queries, which no status shows."""
        leaving, self._leaving = self._leaving, []
        for entry in leaving:
            self._close(entry)
        dropped = [entry.error for entry in leaving if entry.state == "dropped"]
        return [error for error in dropped if error is not None]

    def _close(self, entry: _Entry) -> None:
        error = entry.error
        if error is None:
            if entry.lasting is None:
                entry.outlet.commit(0)  # one that is not saved has a single epoch
            entry.outlet.end()
            error = entry.outlet.failure
        try:
            if entry.on_close is not None:
                entry.on_close(error)
        except Exception as failure:
            error = error or failure
        if error is not None and entry.error is None:
            entry.error = error
            entry.state = "failed" if entry.state == "ended" else entry.state

    # --- what is saved of them -------------------------------------------------------------------

    @property
    def outlets_to_save(self) -> list[IsolatedOutlet]:
        """Outlets that have got rows, including those of queries that have left."""
        return list(self.unsaved.outlets)

    def placed_to_save(self) -> list[PlacedQuery]:
        """Queries that were added and still run."""
        queries = self._run.graph.queries
        return [each for each in self.unsaved.came if queries.get(each.outlet) is each]

    def changed_records(self) -> Iterator[QueryRecord]:
        for number in self.unsaved.records:
            entry = self._lasting.get(number)
            if entry is not None:
                yield self._record(entry, number)

    def _record(self, entry: _Entry, number: int) -> QueryRecord:
        assert entry.lasting is not None
        here = entry.outlet in self._names
        where = placed_as(self._placed(entry)) if here else entry.where
        return QueryRecord(
            number,
            entry.name,
            entry.lasting.definition,
            **where,
            settings=entry.settings,
            state="running" if here else entry.state,
            error=_text_of(entry.error),
        )

    def counted(self, numbers: Iterable[int]) -> dict[int, CountedSoFar]:
        """Counts of the queries with these numbers that still exist."""
        entries = {number: self._lasting.get(number) for number in numbers}
        return {
            number: self._counted(entry) for number, entry in entries.items() if entry is not None
        }

    def _counted(self, entry: _Entry) -> CountedSoFar:
        sources = self._placed(entry).sources if entry.outlet in self._names else ()
        read = sum(source.read_in_all for source in sources)
        return CountedSoFar.of(self._account(entry), entry.outlet.written, read)

    def restored(self) -> Iterator[tuple[PlacedQuery, Mapping[str, str]]]:
        """Yield the queries that were saved, with the operators that have saved state for them."""
        for number, entry in self._lasting.items():
            if entry.lasting is not None and entry.outlet in self._names:
                placed, saved = self._placed(entry), entry.lasting.saved
                assert saved is not None
                if kinds_of(placed) == saved.kinds:
                    self.unsaved.records.discard(number)
                yield placed, saved.kinds

    # --- status ----------------------------------------------------------------------------------

    @property
    def names(self) -> Mapping[Outlet, str]:
        """Names of the queries in the graph, by outlet."""
        return dict(self._names.items())

    @property
    def here(self) -> list[str]:
        return list(self._names.values())

    @property
    def running(self) -> list[str]:
        here = [self._entries.get(name) for name in list(self._names.values())]
        return [each.name for each in here if each is not None and each.state in _WORKING]

    @property
    def written(self) -> int:
        """Number of rows emitted by all queries in the graph."""
        return sum(outlet.written for outlet in self._names)

    def status(self) -> list[QueryStatus]:
        return [self._status(entry) for entry in self._entries.values()]

    def _status(self, entry: _Entry) -> QueryStatus:
        here = entry.outlet in self._names
        return QueryStatus(
            entry.name,
            entry.state,
            _text_of(entry.error),
            self._account(entry),
            entry.outlet.written,
            self._run.open_results(entry.outlet).count if here else 0,
            entry.outlet.waiting,
            entry.outlet.dropped,
        )

    def _account(self, entry: _Entry) -> Account:
        return entry.account or self._run.total(entry.outlet)

    def error(self, name: str) -> BaseException | None:
        entry = self._entry(name)
        return entry.error or entry.outlet.failure

    def _entry(self, name: str) -> _Entry:
        return self._entries[name] if name in self._entries else self.refuse(name)

    def refuse(self, name: str) -> NoReturn:
        close = nearest(name, self._entries)
        raise EngineError(
            f"no query called {name!r} is running", hint=close[0] if close else "SHOW QUERIES"
        )


def _text_of(error: BaseException | None) -> str | None:
    """Text of an error for users; errors other than Penstock's do not include their type, so it is
    added."""
    if error is None or isinstance(error, PenstockError):
        return None if error is None else str(error)
    return f"{type(error).__name__}: {error}"


def _has_ended(source: SourceNode) -> bool:
    return source.ingest.ended
