"""The rows of tables that tuples are looked up in, where the workers of Spark find them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from penstock.errors import CheckpointError
from penstock.kernel.joins.lookup import LookupOperator
from penstock.kernel.state import FORMAT, ChunkStore, required
from penstock.model.ticks import Room
from penstock.model.types import Schema
from penstock.plan.expressions import Expression
from penstock.plan.identity import (
    check_algorithms,
    check_buckets,
    check_format,
    check_query,
    without_windows,
)
from penstock.plan.nodes.aggregation import SharedPanes, WindowsOfPanes
from penstock.plan.nodes.join import Lookup
from penstock.plan.nodes.node import Filter, Node, Project, Scan, Stamp, Union, Unnest
from penstock.plan.nodes.query import Late
from penstock.plan.physical import OperatorKind, PhysicalNode
from penstock.plan.streams import StreamDefinition
from penstock.runs.run_options import Adaptation
from penstock.spark.tasks.messages import PackedKind

if TYPE_CHECKING:
    from penstock.spark.sources.tables import TableFiles

_MANY = 16  # tables that a worker keeps
_filled: dict[str, LookupOperator] = {}  # of this worker, by the file that the rows are in


@dataclass(frozen=True)
class TableFile:
    """An Arrow file with a batch: at a path that workers see, or `sent` to them by Spark.  No two
    runs have one of the same name."""

    path: str
    sent: bool = False

    @staticmethod
    def write(rows: pa.RecordBatch, path: Path, sent: bool = False) -> TableFile:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return TableFile(str(path), sent)

    def rows(self) -> pa.RecordBatch:
        """In the memory that all processes of a machine share."""
        path = self.path
        if self.sent:
            from pyspark import SparkFiles

            path = SparkFiles.get(Path(path).name)
        return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)


def filled(lookup: Lookup, file: TableFile) -> LookupOperator:
    """The operator of a look-up, which keeps nothing but the table: tasks share it, so that rows
    are put in order once."""
    found = _filled.pop(file.path, None)
    if found is None:
        found = LookupOperator(lookup)
        found.fill(file.rows())
        while len(_filled) >= _MANY:  # of queries that are over, probably
            del _filled[next(iter(_filled))]
    _filled[file.path] = found
    return found


# A physical plan cut into stages: one stateful operator each, fed through stateless steps.
#
# Every stage is one shuffle.  Whatever stands between two stages, or between a scan and a stage, is
# done before the shuffle, so that a stage gets rows that look as its operator wants them.


@dataclass(frozen=True)
class Branch:
    """Into a union through one of its inputs."""

    union: Union
    port: int


@dataclass(frozen=True)
class TableStep:
    """Beside the rows of a table, which are in a file once somebody has read them."""

    lookup: Lookup
    file: TableFile | None = None

    @property
    def schema(self) -> Schema:
        return self.lookup.schema


Step: TypeAlias = Filter | Project | Stamp | Unnest | Branch | TableStep


@dataclass(frozen=True)
class Entry:
    """A way to a port of a stage, or to the end: from a scan or another stage through steps.  A
    stage that several queries share has a `part` for each of them."""

    leaf: Scan | Stage
    steps: tuple[Step, ...] = ()
    port: int = 0
    part: int = 0

    def then(self, step: Step) -> Entry:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Stage:
    """What comes out of the operator goes to its `parts`, if there are some: operators in the same
    bucket, each of which has results of its own."""

    physical: PhysicalNode
    entries: tuple[Entry, ...]
    files: tuple[TableFile, ...] = ()  # where tuples are looked up: the rows for each bucket
    parts: tuple[PhysicalNode, ...] = ()

    @property
    def passes_tuples(self) -> bool:
        """Whether what comes out are tuples, which may be late for others, and no results."""
        return isinstance(self.node, Lookup)

    @property
    def node(self) -> Node:
        return self.physical.logical

    @property
    def one_bucket(self) -> bool:
        """Whether all tuples have to meet, so that there is only one bucket."""
        return not all(port.keys or port.slices for port in self.physical.ports)

    def keys(self, port: int) -> tuple[Expression, ...]:
        """Tuples that agree on these meet in one bucket."""
        return self.physical.ports[port].keys or ()

    def schema(self, port: int) -> Schema:
        return self.node.inputs[port].schema

    def makes_panes(self, port: int) -> bool:
        """Whether tuples are folded before the shuffle."""
        return self.physical.ports[port].pre_aggregated

    def stages(self) -> Iterator[Stage]:
        """This one after those that feed it."""
        for entry in self.entries:
            if isinstance(entry.leaf, Stage):
                yield from entry.leaf.stages()
        yield self


class PanesInCommon:
    """The stages that fold tuples into panes for several queries, each of which has a part."""

    def __init__(self, roots: Iterable[PhysicalNode] = ()) -> None:
        self._parts: dict[SharedPanes, dict[PhysicalNode, int]] = {}
        self._made: dict[SharedPanes, Stage] = {}
        for root in roots:
            for node in root.walk():
                if isinstance(node.logical, WindowsOfPanes):
                    known = self._parts.setdefault(node.logical.input, {})
                    known.setdefault(_alone(node), len(known))

    def entry(self, node: PhysicalNode) -> Entry:
        """From the part that makes the windows of a query."""
        assert isinstance(node.logical, WindowsOfPanes)
        shared, parts = node.logical.input, self._parts[node.logical.input]
        if shared not in self._made:
            (folding,) = node.inputs
            entries = entries_of(folding.inputs[0])
            self._made[shared] = Stage(folding, entries, parts=tuple(parts))
        return Entry(self._made[shared], part=parts[_alone(node)])


@dataclass
class InCommon:
    """What several queries have in common, and the `nodes` that one of them asks for more than
    once: these are stages that are there once, if the same is asked of them."""

    panes: PanesInCommon = field(default_factory=PanesInCommon)
    nodes: frozenset[Node] = frozenset()
    _made: dict[PhysicalNode, Stage] = field(default_factory=dict)

    def stage(self, node: PhysicalNode, make: Callable[[], Stage]) -> Stage:
        if node.logical not in self.nodes:
            return make()
        alone = _alone(node)
        if alone not in self._made:
            self._made[alone] = make()
        return self._made[alone]


def _alone(node: PhysicalNode) -> PhysicalNode:
    """Without notes on who asks for it."""
    return replace(node, notes=())


def entries_of(
    node: PhysicalNode, tables: TableFiles | None = None, common: InCommon | None = None
) -> tuple[Entry, ...]:
    """All ways on which tuples come out of an operator.  Where it is to be run, somebody has to
    read the `tables` in it.  Stages that are in `common` are made once.

    before: Filter (Paned (Union (Read a, Filter (Read b))))
    after:  Entry(Stage(Paned, [Entry(a, [Branch 0]), Entry(b, [Filter, Branch 1])]), [Filter])
    """
    logical = node.logical
    common = InCommon() if common is None else common
    if isinstance(logical, Scan):
        return (Entry(logical),)
    if isinstance(logical, WindowsOfPanes):
        return (common.panes.entry(node),)
    if node.stateful:
        return (Entry(common.stage(node, lambda: _stage(node, tables, common))),)
    if isinstance(logical, Union):
        return tuple(
            entry.then(Branch(logical, number))
            for number, each in enumerate(node.inputs)
            for entry in entries_of(each, tables, common)
        )
    step: Step
    if isinstance(logical, Lookup):
        step = TableStep(logical, tables.whole(logical) if tables is not None else None)
    else:
        assert isinstance(logical, Filter | Project | Stamp | Unnest)
        step = logical
    return tuple(entry.then(step) for entry in entries_of(node.inputs[0], tables, common))


def _stage(node: PhysicalNode, tables: TableFiles | None, common: InCommon) -> Stage:
    entries = tuple(
        replace(entry, port=number)
        for number, each in enumerate(node.inputs)
        for entry in entries_of(each, tables, common)
    )
    files: tuple[TableFile, ...] = ()
    if isinstance(node.logical, Lookup) and tables is not None:
        files = tables.parts(node.logical)
    return Stage(node, entries, files)


def waits_for_order(root: PhysicalNode) -> bool:
    """Whether a stage of its own puts the rows of a query in order."""
    return root.operator is OperatorKind.ORDER


# Whose state it is, in the state itself: every bucket of every stage says so before it is read.
#
# Whatever wrote a checkpoint, with or without Penstock's own files beside it, another query finds
# out before it has taken anything in, and its micro-batch fails before it is committed.

_CHUNK = "identity"
_WHERE = "the state in Spark's checkpoint"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    plan: tuple[str, ...]
    algorithms: tuple[str, ...]
    stage: int  # which one of the plan, from 1 on
    buckets: int

    def write(self, store: ChunkStore, operator: str | None = None) -> None:
        """`operator` is the kind of operator that the state is of."""
        store.put(
            _CHUNK,
            {
                "format": FORMAT,
                "plan": self.plan,
                "algorithms": self.algorithms,
                "stage": self.stage,
                "buckets": self.buckets,
                "operator": operator,
            },
        )

    def owns(self, store: ChunkStore) -> bool:
        """Whether there is state, which then is this query's: otherwise it is an error."""
        found = store.get(_CHUNK)
        if found is None:
            if list(store.names()):
                raise CheckpointError(
                    f"{_WHERE} was made by an earlier version of Penstock: it does not say whose "
                    "it is",
                    hint="run it with the version that wrote it; or another checkpoint",
                )
            return False
        check_format(found["format"], FORMAT, _WHERE)
        check_query(found["plan"], list(self.plan), _WHERE)
        of, own = list(found["algorithms"]), list(self.algorithms)
        if found.get("operator") is not None:  # then it moves, if need be
            of, own = without_windows(of), without_windows(own)
        check_algorithms(of, own, _WHERE)
        check_buckets(found["buckets"], self.buckets, _WHERE)
        if found["stage"] != self.stage:
            raise CheckpointError(
                f"{_WHERE} is that of stage {found['stage']}, where stage {self.stage} looks for "
                "its own",
                hint="restore the checkpoint, or delete its directory to begin anew",
            )
        return True

    def operator(self, store: ChunkStore) -> str | None:
        """The kind of operator that the state is of, if it says so."""
        found = required(store, _CHUNK).get("operator")
        return None if found is None else str(found)


# What every task of a stage has to know; fixed when a query first starts.


@dataclass(frozen=True)
class Destination:
    """Where the results of a stage, or of a part of it, go: to an entry of another stage, or out
    (None), where `entry` is the number of the way.  What becomes of tuples that are late for them
    is for the query to say, by its number among those of the run; `signed` if negative items are
    part of its answer.  A query may ask so many `times` for what is computed once."""

    tail: Entry
    stage: StageConfig | None
    entry: int = 0
    query: int = 0
    late: Late = Late.DROP
    signed: bool = False
    times: int = 1

    @property
    def part(self) -> int:
        return self.tail.part

    @property
    def width(self) -> int:
        """How many columns results have there, without a sign."""
        if not self.tail.steps:
            assert isinstance(self.tail.leaf, Stage)
            stage = self.tail.leaf
            node = stage.parts[self.part].logical if stage.parts else stage.node
            return len(node.schema)
        last = self.tail.steps[-1]
        return len(last.union.schema if isinstance(last, Branch) else last.schema)


@dataclass(frozen=True)
class StageConfig:
    stage: Stage
    destinations: tuple[Destination, ...]
    bucket_keys: tuple[int, ...]  # what Spark knows each bucket by
    token: str  # tells the runs of queries apart in the memory of workers
    parts: tuple[tuple[str, ...], ...]  # by entry: the sub-sources that are known from the start
    feeding: tuple[int, ...]  # by entry: how many buckets feed it, 0 for a scan
    identity: StateIdentity  # whose state it is
    strict: bool = False
    live: bool = False  # whether sources may be silent: a bounded run reads all to its end
    analyzed: bool = False  # whether somebody wants to know what steps and operators do
    adaptation: Adaptation = field(default_factory=Adaptation.never)  # when operators are exchanged

    @property
    def goes_out(self) -> bool:
        """Whether some of its results are those of a query."""
        return any(each.stage is None for each in self.destinations)

    @property
    def queries(self) -> list[int]:
        """Whose stage it is."""
        return list(dict.fromkeys(each.query for each in self.destinations))

    @property
    def early_every(self) -> int | None:
        asked = self.stage.physical.asked
        return asked.early_every if asked is not None else None

    @property
    def looks_at_clock(self) -> bool:
        """Whether time alone may have something to say: a source may be idle, or answers due."""
        scans = [entry.leaf for entry in self.stage.entries if isinstance(entry.leaf, Scan)]
        return self.early_every is not None or (self.live and may_be_idle(scans))

    @property
    def buckets(self) -> int:
        return len(self.bucket_keys)

    def giving(self, kind: PackedKind) -> StageConfig:
        """For a DataFrame of one kind of rows: what one of late tuples has read, one of results
        must not take for its own."""
        if kind is not PackedKind.LATE:
            return self
        plan = (*self.identity.plan, "gives late tuples alone")
        return replace(self, identity=replace(self.identity, plan=plan))


def may_be_idle(scans: Iterable[Scan]) -> bool:
    """Whether one of the streams says when it is not waited for any more."""
    progress = [scan.stream.progress for scan in scans]
    return any(each is not None and each.policy.idle_after is not None for each in progress)


# Which streams are read for whom: one reading serves all ways that lead from a stream.
#
# Stages that are fed from one reading stand in a row: each hands on what is for those behind it.


@dataclass(frozen=True)
class WayToStage:
    config: StageConfig
    number: int  # of the entry

    @property
    def entry(self) -> Entry:
        return self.config.stage.entries[self.number]


@dataclass(frozen=True)
class WayToEnd:
    """To the results of a query, by its number in the run; and the number of the way."""

    entry: Entry
    query: int = 0
    number: int = 0


@dataclass(frozen=True)
class StreamReading:
    """`scan` has the columns that one of the ways wants, to stages or, without any, to the `ends`.
    Where another reading of the stream `counts` its rows, this one does not."""

    scan: Scan
    ways: tuple[WayToStage, ...]
    ends: tuple[WayToEnd, ...] = ()
    counts: bool = True
    analyzed: bool = False  # whether somebody wants to know what is done on the ways

    @property
    def stream(self) -> str:
        return self.scan.stream.name

    @property
    def needs_row(self) -> bool:
        """Whether several stages are fed from it, or one and the end."""
        stages = {id(way.config) for way in self.ways}
        return len(stages) + bool(self.ends) > 1

    def apart(self) -> Iterator[StreamReading]:
        """One for every stage, and one for the ends."""
        by_stage: dict[int, list[WayToStage]] = {}
        for way in self.ways:
            by_stage.setdefault(id(way.config), []).append(way)
        return self._parts([tuple(ways) for ways in by_stage.values()])

    def in_turn(self, queries: Collection[int] = (0,)) -> Iterator[StreamReading]:
        """One for every way of some queries: all tuples on one come before those on the next.  The
        others have one together."""
        alone = [way for way in self.ways if not set(way.config.queries).isdisjoint(queries)]
        others = tuple(way for way in self.ways if way not in alone)
        return self._parts([*([others] if others else []), *((way,) for way in alone)])

    def _parts(self, ways: Sequence[tuple[WayToStage, ...]]) -> Iterator[StreamReading]:
        parts = [replace(self, ways=each, ends=()) for each in ways]
        parts += [replace(self, ways=())] if self.ends else []
        for number, part in enumerate(parts):
            yield replace(part, counts=self.counts and number == 0)


def readings_of(
    configs: Iterable[StageConfig],
    ends: Iterable[WayToEnd],
    streams: Mapping[str, StreamDefinition],
) -> list[StreamReading]:
    """One for every stream, which queries know as they were before columns were left out."""
    ways: dict[str, list[WayToStage]] = {}
    for config in configs:
        for number, entry in enumerate(config.stage.entries):
            if isinstance(entry.leaf, Scan):
                ways.setdefault(entry.leaf.stream.name, []).append(WayToStage(config, number))
    to_end: dict[str, list[WayToEnd]] = {}
    for end in ends:
        if isinstance(end.entry.leaf, Scan):
            to_end.setdefault(end.entry.leaf.stream.name, []).append(end)
    made = []
    for name in dict.fromkeys([*ways, *to_end]):
        own, last = tuple(ways.get(name, ())), tuple(to_end.get(name, ()))
        entries = [*(way.entry for way in own), *(way.entry for way in last)]
        leaves = [entry.leaf for entry in entries]
        scan = scan_for([leaf for leaf in leaves if isinstance(leaf, Scan)], streams[name])
        made.append(StreamReading(scan, own, last))
    return made


def scan_for(scans: Sequence[Scan], stream: StreamDefinition) -> Scan:
    """One scan with the columns of all of them, under the alias of the first."""
    wanted = {name for scan in scans for name in scan.stream.schema.names}
    fields = tuple(field for field in stream.schema if field.name in wanted)
    first = scans[0]
    if len(fields) > len(first.stream.schema.fields):
        first = replace(first, stream=replace(first.stream, schema=Schema(fields)))
    return replace(first, room=reduce(Room.meet, [scan.room for scan in scans]))
