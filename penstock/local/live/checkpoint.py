"""The checkpoint of a live engine: the state of those parts of the graph that saved queries need,
with their outputs and their records, in one cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from penstock.errors import CheckpointError
from penstock.io.sinks.claims import leave, remove_empty
from penstock.io.sinks.sink import Ledger
from penstock.kernel.build import drop_all, load_moved
from penstock.kernel.state import ChunkStore, Within, required
from penstock.local.checkpoint import (
    LIVE,
    Checkpoints,
    no_state_of,
    of_operator,
    of_source,
    save_operator,
)
from penstock.local.graph.node import GraphNode
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.graph.source_node import SourceNode
from penstock.local.graph.topology import PlacedQuery
from penstock.local.live.queries import CountedSoFar, LiveQueries, QueryRecord, Unsaved
from penstock.local.run import LocalRun
from penstock.model.clock import Clock
from penstock.runs.answer import Account
from penstock.runs.delivery import SIDES

_READING = ("sources", "readings")


class GraphState:
    """State of the nodes of a graph, saved under their names.  A node that is gone takes its chunks
    along, also if another one has got its name meanwhile.  Nodes note themselves that they have
    changed."""

    def __init__(self, store: ChunkStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._saved: dict[str, GraphNode] = {}  # by how their keys begin
        self._changed: set[GraphNode] = set()

    def save(self, came: Iterable[PlacedQuery], left: Iterable[PlacedQuery]) -> None:
        """Save the nodes that changed, when nothing waits anywhere; with the queries that have come
        and left since the last time.  A node that still serves a query that is not saved goes on
        being saved, because another may join it."""
        for node in _nodes(left):
            if not node.outlets and self._saved.get(_key(node)) is node:
                del self._saved[_key(node)]
                self._drop_chunks(node)
        for node in _nodes(came):
            if node.outlets and self._saved.get(_key(node)) is not node:
                self._drop_chunks(node)  # of one that was here before
                self._track(node)
                self._changed.add(node)
        changed = [node for node in self._changed if node.outlets]
        self._changed.clear()
        for node in changed:
            if isinstance(node, OperatorNode):
                save_operator(node, self._store)
            elif isinstance(node, SourceNode):
                self._save_source(node)

    def _track(self, node: GraphNode) -> None:
        self._saved[_key(node)] = node
        node.unsaved = self._changed

    def _drop_chunks(self, node: GraphNode) -> None:
        for prefix in _prefixes(node):
            drop_all(Within(self._store, f"{prefix}/"))

    def _save_source(self, source: SourceNode) -> None:
        own = of_source(self._store, source, "sources")
        own.put("node", {"begun": source.begun, "read": source.read_in_all})
        source.ingest.save(own)
        if source.reading is not None:
            source.reading.save(of_source(self._store, source, "readings"))

    # --- loading ---------------------------------------------------------------------------------

    def load(self, placed: PlacedQuery, kinds: Mapping[str, str]) -> None:
        """Restore the nodes of a query that have read nothing yet; `kinds` are the operators that
        have saved something, by name."""
        for operator in placed.operators:
            if _key(operator) not in self._saved:
                self._track(operator)
                self._load_operator(operator, placed.copies.get(operator), kinds)
        for source in placed.sources:
            if _key(source) not in self._saved:
                self._track(source)
                self._load_source(source)

    def _load_operator(
        self, operator: OperatorNode, copied: str | None, kinds: Mapping[str, str]
    ) -> None:
        own, name = of_operator(self._store, operator.name), copied or operator.name
        if copied is not None:
            other = of_operator(self._store, copied)
            for key in other.names():
                own.put(key, required(other, key))
        if operator.node.stateful and name not in kinds:
            raise no_state_of(operator)
        was = kinds.get(name, operator.node.operator.value)
        if load_moved(operator.operator, operator.node, was, own, self._clock):
            drop_all(own)
            operator.operator.save(own)

    def _load_source(self, source: SourceNode) -> None:
        own = of_source(self._store, source, "sources")
        node = required(own, "node")
        source.begun, source.read_before = node["begun"], node.get("read", 0)
        source.ingest.load(own)
        if source.reading is not None:
            source.reading.load(of_source(self._store, source, "readings"))


def rows_read(store: ChunkStore, source: str) -> int:
    """Rows that all runs so far have read of a source, by its name."""
    return int(required(store, f"sources/{quote(source, safe='')}/node").get("read", 0))


def _nodes(queries: Iterable[PlacedQuery]) -> dict[GraphNode, None]:
    """Nodes of some queries, each once."""
    return {node: None for placed in queries for node in (*placed.operators, *placed.sources)}


def _prefixes(node: GraphNode) -> tuple[str, ...]:
    """Prefixes of the keys that a node has in the store."""
    if isinstance(node, SourceNode):
        return tuple(f"{what}/{quote(node.name, safe='')}" for what in _READING)
    return (f"operators/{node.name}",)


def _key(node: GraphNode) -> str:
    return _prefixes(node)[0]


# The checkpoint of a live engine: all of its queries, outputs first, in one cut.
#
# Whatever the moment of a crash, the last cut is complete: queries with their state, how far their
# sources were read, and how long their outputs were.

EVERY = 1_000_000  # microseconds between two saves
_BLOCK = 64  # queries whose accounts are saved together
_WHOLE = "accounts"  # where earlier versions had those of all


class LiveCheckpoint:
    """The checkpoint of a live engine.  `every` is how long a change waits to be saved, in
    microseconds."""

    def __init__(self, directory: Path, run: LocalRun, every: int = EVERY) -> None:
        self._run = run
        self._every = every
        self._store = Checkpoints(directory)
        try:
            if self._store.get("run") is not None:
                raise CheckpointError(
                    f"the checkpoint in {directory} is of queries that were run, not of a live"
                    " engine",
                    hint="query.run(checkpoint=…), penstock run --checkpoint, or another one",
                )
            self.ledger = Ledger(directory / "outputs.json")
            self._next = (self._store.get(LIVE) or {"next": 1})["next"]
            self._next_saved = 0
            self._forget_outputs(self._unrecorded())
        except BaseException:
            self.close()
            raise
        self._state = GraphState(self._store, run.clock)
        self._since: int | None = None  # when something new came that is not saved
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self._store.close()

    @property
    def next_number(self) -> int:
        return int(self._next)

    def take_number(self) -> int:
        """Take the number of a new query, once nothing can go wrong with it."""
        self._next += 1
        return int(self._next) - 1

    # --- what was saved --------------------------------------------------------------------------

    def records(self) -> list[QueryRecord]:
        """Records of all queries, in the order in which they were created."""
        keys = [name for name in self._store.names() if name.startswith("queries/")]
        found = [QueryRecord.load(required(self._store, key)) for key in keys]
        return sorted(found, key=lambda record: record.number)

    def counted(self, record: QueryRecord) -> tuple[Account, int]:
        """Counts of a query, and the number of rows it had emitted."""
        number, whole = str(record.number), self._store.get(_WHOLE)
        if whole is not None:  # as earlier versions have saved it
            *account, written = whole[number]
            return Account(*account), written
        found = CountedSoFar(*required(self._store, _block(record.number))[number])
        sources = set[str]() if record.is_over else record.placement.source_names
        return found.account(sum(rows_read(self._store, each) for each in sources)), found.written

    def load(self, queries: LiveQueries) -> None:
        """Restore a graph that has been put together, and has read nothing yet."""
        for placed, kinds in queries.restored():
            self._state.load(placed, kinds)

    def _unrecorded(self) -> set[int]:
        """Numbers of queries that have outputs in the ledger, and no record."""
        recorded = {record.number for record in self.records()}
        return {int(name.partition("/")[0]) for name in self.ledger.names} - recorded

    def _forget_outputs(self, numbers: Iterable[int]) -> None:
        """Drop the outputs of queries that are gone from the ledger.  If a query has never been
        saved, neither have its rows; where nothing has been written, another query may write."""
        for number in numbers:
            for name in (f"{number}/{side}" for side in SIDES):
                if name in self.ledger:
                    if number >= self._next:
                        owner = f"{self.ledger.owner}{number}/"
                        leave(self.ledger, name, self._store.epoch + 1, owner)
                    remove_empty(*self.ledger.forget(name))

    # --- saving ----------------------------------------------------------------------------------

    def change(self) -> bool:
        """Note a change that is to be saved soon; whether it is the first since the last save."""
        if self._since is not None:
            return False
        self._since = self._run.clock.now()
        return True

    @property
    def due(self) -> int | None:
        """Time of the next save in microseconds, or None if nothing has changed."""
        return None if self._since is None else self._since + self._every

    def save(self, queries: LiveQueries) -> list[BaseException]:
        """Save, when nothing waits anywhere in the graph; return the errors of sinks of dropped
        queries."""
        epoch = self._store.epoch + 1
        outlets = queries.outlets_to_save
        for outlet in outlets:
            outlet.prepare(epoch)
        self.ledger.write()
        for outlet in outlets:
            outlet.commit(epoch)
        queries.look(ended=False)  # a sink that has failed has not got everything
        self.ledger.write()
        unsaved = queries.unsaved
        self._put(queries, unsaved)
        self._store.commit()
        self._since = None
        self._forget_outputs(unsaved.gone)
        unsaved.clear()
        return queries.close_saved()

    def _put(self, queries: LiveQueries, unsaved: Unsaved) -> None:
        """Put only the chunks that have changed: queries may be very many."""
        store = self._store
        following = self._next  # which another thread may take meanwhile
        if following != self._next_saved:
            store.put(LIVE, {"next": following})
            self._next_saved = following
        for record in queries.changed_records():
            store.put(f"queries/{record.number}", record.save())
        for number in unsaved.gone:
            store.drop(f"queries/{number}")
        self._put_accounts(queries, unsaved.counting)
        self._state.save(queries.placed_to_save(), unsaved.left)

    def _put_accounts(self, queries: LiveQueries, numbers: Iterable[int]) -> None:
        """Put accounts in blocks, because those of many queries change together."""
        self._store.drop(_WHOLE)
        for first in sorted({number // _BLOCK * _BLOCK for number in numbers}):
            counted = queries.counted(range(first, first + _BLOCK))
            if counted:
                chunk = {str(number): list(each) for number, each in counted.items()}
                self._store.put(_block(first), chunk)
            else:
                self._store.drop(_block(first))


def _block(number: int) -> str:
    return f"accounts/{number // _BLOCK}"
