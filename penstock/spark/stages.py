"""A physical plan cut into stages and paths: the stages with what their tasks have to know, the
identity of their state, the tables of workers, and the paths that begin at one scan.

A stage is one stateful operator and what feeds it; a path leads from a stream, or from another
stage, to a stage or to the end; the stateless steps of a path in a row are a segment.
"""

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

# Tables that tuples are looked up in, as Spark's workers find them.

_MANY = 16  # tables that a worker keeps
_filled: dict[str, LookupOperator] = {}  # of this worker, by the file that the rows are in


@dataclass(frozen=True)
class TableFile:
    """An Arrow file with a batch: at a path that workers see, or `sent` to them by Spark.  The
    names of the files of different runs differ."""

    path: str
    sent: bool = False

    @staticmethod
    def write(rows: pa.RecordBatch, path: Path, sent: bool = False) -> TableFile:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return TableFile(str(path), sent)

    def rows(self) -> pa.RecordBatch:
        """Map the rows into the memory that all processes of a machine share."""
        path = self.path
        if self.sent:
            from pyspark import SparkFiles

            path = SparkFiles.get(Path(path).name)
        return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)


def filled(lookup: Lookup, file: TableFile) -> LookupOperator:
    """Operator of a look-up, with its table as the only state: tasks share it, so that rows are
    sorted once."""
    found = _filled.pop(file.path, None)
    if found is None:
        found = LookupOperator(lookup)
        found.fill(file.rows())
        while len(_filled) >= _MANY:  # of queries that are over, probably
            del _filled[next(iter(_filled))]
    _filled[file.path] = found
    return found


# Stages and paths: one stateful operator per stage, fed through stateless steps.
#
# Every stage is one shuffle.  The steps of a path are done before the shuffle, so that a stage gets
# rows with the columns that its operator needs.


@dataclass(frozen=True)
class Branch:
    """A step into a union through one of its inputs."""

    union: Union
    port: int


@dataclass(frozen=True)
class TableStep:
    """A step that looks tuples up in a table, which is in a file once it has been read."""

    lookup: Lookup
    file: TableFile | None = None

    @property
    def schema(self) -> Schema:
        return self.lookup.schema


Step: TypeAlias = Filter | Project | Stamp | Unnest | Branch | TableStep


@dataclass(frozen=True)
class StagePath:
    """A path to a port of a stage, or to the end: from a scan or another stage (its `leaf`) through
    stateless steps.  If that stage is shared by several queries, `part` is the operator of one of
    them."""

    leaf: Scan | Stage
    steps: tuple[Step, ...] = ()
    port: int = 0
    part: int = 0

    def then(self, step: Step) -> StagePath:
        """Append a step."""
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Stage:
    """A stateful operator and the paths that feed it.  If the stage is shared, its results go to
    the `parts`: operators in the same bucket, one for each query, each with results of its own."""

    physical: PhysicalNode
    paths: tuple[StagePath, ...]
    files: tuple[TableFile, ...] = ()  # where tuples are looked up: the rows for each bucket
    parts: tuple[PhysicalNode, ...] = ()

    @property
    def passes_tuples(self) -> bool:
        """Whether the output is tuples, which may be late for later stages, and not results."""
        return isinstance(self.node, Lookup)

    @property
    def node(self) -> Node:
        return self.physical.logical

    @property
    def one_bucket(self) -> bool:
        """Whether all tuples have to meet, so that there is only one bucket."""
        return not all(port.keys or port.slices for port in self.physical.ports)

    def keys(self, port: int) -> tuple[Expression, ...]:
        """Keys of a port: tuples that agree on them meet in one bucket."""
        return self.physical.ports[port].keys or ()

    def schema(self, port: int) -> Schema:
        return self.node.inputs[port].schema

    def makes_panes(self, port: int) -> bool:
        """Whether the tuples of a port are folded into panes before the shuffle."""
        return self.physical.ports[port].pre_aggregated

    def stages(self) -> Iterator[Stage]:
        """Yield this stage, after those that feed it."""
        for path in self.paths:
            if isinstance(path.leaf, Stage):
                yield from path.leaf.stages()
        yield self


class SharedPaneStages:
    """The stages that fold tuples into panes for several queries, each of which has a part."""

    def __init__(self, roots: Iterable[PhysicalNode] = ()) -> None:
        self._parts: dict[SharedPanes, dict[PhysicalNode, int]] = {}
        self._made: dict[SharedPanes, Stage] = {}
        for root in roots:
            for node in root.walk():
                if isinstance(node.logical, WindowsOfPanes):
                    known = self._parts.setdefault(node.logical.input, {})
                    known.setdefault(_without_notes(node), len(known))

    def path(self, node: PhysicalNode) -> StagePath:
        """Path from the part that makes the windows of a query."""
        assert isinstance(node.logical, WindowsOfPanes)
        shared, parts = node.logical.input, self._parts[node.logical.input]
        if shared not in self._made:
            (folding,) = node.inputs
            paths = paths_of(folding.inputs[0])
            self._made[shared] = Stage(folding, paths, parts=tuple(parts))
        return StagePath(self._made[shared], part=parts[_without_notes(node)])


@dataclass
class SharedStages:
    """Stages that are shared: those of several queries, and those of the `nodes` that a query uses
    more than once, which are made once if their plans are equal."""

    panes: SharedPaneStages = field(default_factory=SharedPaneStages)
    nodes: frozenset[Node] = frozenset()
    _made: dict[PhysicalNode, Stage] = field(default_factory=dict)

    def stage(self, node: PhysicalNode, make: Callable[[], Stage]) -> Stage:
        if node.logical not in self.nodes:
            return make()
        alone = _without_notes(node)
        if alone not in self._made:
            self._made[alone] = make()
        return self._made[alone]


def _without_notes(node: PhysicalNode) -> PhysicalNode:
    """Copy without the notes about the consumers of a node."""
    return replace(node, notes=())


def paths_of(
    node: PhysicalNode, tables: TableFiles | None = None, common: SharedStages | None = None
) -> tuple[StagePath, ...]:
    """All paths on which the output of an operator comes.  If it is to be run, the `tables` in it
    are read.  Stages that are in `common` are made once.

    before: Filter (Paned (Union (Read a, Filter (Read b))))
    after:  Path(Stage(Paned, [Path(a, [Branch 0]), Path(b, [Filter, Branch 1])]), [Filter])
    """
    logical = node.logical
    common = SharedStages() if common is None else common
    if isinstance(logical, Scan):
        return (StagePath(logical),)
    if isinstance(logical, WindowsOfPanes):
        return (common.panes.path(node),)
    if node.stateful:
        return (StagePath(common.stage(node, lambda: _stage(node, tables, common))),)
    if isinstance(logical, Union):
        return tuple(
            path.then(Branch(logical, number))
            for number, each in enumerate(node.inputs)
            for path in paths_of(each, tables, common)
        )
    step: Step
    if isinstance(logical, Lookup):
        step = TableStep(logical, tables.whole(logical) if tables is not None else None)
    else:
        assert isinstance(logical, Filter | Project | Stamp | Unnest)
        step = logical
    return tuple(path.then(step) for path in paths_of(node.inputs[0], tables, common))


def _stage(node: PhysicalNode, tables: TableFiles | None, common: SharedStages) -> Stage:
    paths = tuple(
        replace(path, port=number)
        for number, each in enumerate(node.inputs)
        for path in paths_of(each, tables, common)
    )
    files: tuple[TableFile, ...] = ()
    if isinstance(node.logical, Lookup) and tables is not None:
        files = tables.parts(node.logical)
    return Stage(node, paths, files)


def waits_for_order(root: PhysicalNode) -> bool:
    """Whether a stage of its own puts the rows of a query in order."""
    return root.operator is OperatorKind.ORDER


# The identity of state, in the state itself: checked for every bucket before it is read.
#
# If a checkpoint belongs to another query, with or without Penstock's own files next to it, this is
# found before any row is folded, and the micro-batch fails before it is committed.

_CHUNK = "identity"
_WHERE = "the state in Spark's checkpoint"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """The query, algorithms, stage and number of buckets that the state of a bucket belongs to."""

    plan: tuple[str, ...]
    algorithms: tuple[str, ...]
    stage: int  # which one of the plan, from 1 on
    buckets: int

    def write(self, store: ChunkStore, operator: str | None = None) -> None:
        """Write the identity; `operator` is the kind of operator that the state is of."""
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
        """Whether there is state of this query; state of another one is an error."""
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
                hint="restore the checkpoint, or delete its directory to start over",
            )
        return True

    def operator(self, store: ChunkStore) -> str | None:
        """Kind of operator that the state is of, or None."""
        found = required(store, _CHUNK).get("operator")
        return None if found is None else str(found)


# Configuration of a stage for its tasks; fixed when a query first starts.


@dataclass(frozen=True)
class Destination:
    """Destination of the results of a stage, or of a part of it: another stage, or the end (None).
    `tail` is the path there, and `path` its number.  The query, by its number in the run, decides
    what becomes of tuples that are late for them; `signed` if negative items are part of its
    answer.  A query may use the same results so many `times`."""

    tail: StagePath
    stage: StageConfig | None
    path: int = 0
    query: int = 0
    late: Late = Late.DROP
    signed: bool = False
    times: int = 1

    @property
    def part(self) -> int:
        return self.tail.part

    @property
    def width(self) -> int:
        """Number of columns that results have there, without a sign."""
        if not self.tail.steps:
            assert isinstance(self.tail.leaf, Stage)
            stage = self.tail.leaf
            node = stage.parts[self.part].logical if stage.parts else stage.node
            return len(node.schema)
        last = self.tail.steps[-1]
        return len(last.union.schema if isinstance(last, Branch) else last.schema)


@dataclass(frozen=True)
class StageConfig:
    """A stage as its tasks see it: its destinations, its buckets, and the identity of its state."""

    stage: Stage
    destinations: tuple[Destination, ...]
    bucket_keys: tuple[int, ...]  # what Spark knows each bucket by
    token: str  # tells runs apart in the memory of workers
    parts: tuple[tuple[str, ...], ...]  # by path: the sub-sources that are known from the start
    feeding: tuple[int, ...]  # by path: how many buckets feed it, 0 for a scan
    identity: StateIdentity  # of the state
    strict: bool = False
    live: bool = False  # whether sources may be silent: a bounded run reads all to its end
    analyzed: bool = False  # whether the work of steps and operators is measured
    adaptation: Adaptation = field(default_factory=Adaptation.never)  # when operators are exchanged

    @property
    def goes_out(self) -> bool:
        """Whether some of the results are those of a query."""
        return any(each.stage is None for each in self.destinations)

    @property
    def queries(self) -> list[int]:
        """Numbers of the queries that the stage serves."""
        return list(dict.fromkeys(each.query for each in self.destinations))

    @property
    def early_every(self) -> int | None:
        asked = self.stage.physical.asked
        return asked.early_every if asked is not None else None

    @property
    def looks_at_clock(self) -> bool:
        """Whether the stage needs timers: a source may be idle, or early answers are due."""
        scans = [path.leaf for path in self.stage.paths if isinstance(path.leaf, Scan)]
        return self.early_every is not None or (self.live and may_be_idle(scans))

    @property
    def buckets(self) -> int:
        return len(self.bucket_keys)

    def giving(self, kind: PackedKind) -> StageConfig:
        """Configuration for a DataFrame of one kind of rows: a run for late tuples must not share
        state with one for results."""
        if kind is not PackedKind.LATE:
            return self
        plan = (*self.identity.plan, "gives late tuples alone")
        return replace(self, identity=replace(self.identity, plan=plan))


def may_be_idle(scans: Iterable[Scan]) -> bool:
    """Whether one of the streams is no longer waited for after a silence."""
    progress = [scan.stream.progress for scan in scans]
    return any(each is not None and each.policy.idle_after is not None for each in progress)


# Scans of streams: one scan serves all paths that lead from a stream.
#
# Stages that are fed from one scan are chained: each forwards the messages of later stages.


@dataclass(frozen=True)
class PathToStage:
    """A path to a stage, with the configuration of the stage."""

    config: StageConfig
    number: int  # of the path

    @property
    def path(self) -> StagePath:
        return self.config.stage.paths[self.number]


@dataclass(frozen=True)
class PathToEnd:
    """A path to the results of a query, by its number in the run; and the number of the path."""

    path: StagePath
    query: int = 0
    number: int = 0


@dataclass(frozen=True)
class StreamPaths:
    """The paths that begin at one scan.  `scan` has the columns that any of the paths needs, to
    stages or, without any, to the `ends`.  If another scan of the stream `counts` its rows, this
    one does not."""

    scan: Scan
    paths: tuple[PathToStage, ...]
    ends: tuple[PathToEnd, ...] = ()
    counts: bool = True
    analyzed: bool = False  # whether the work on the paths is measured

    @property
    def stream(self) -> str:
        return self.scan.stream.name

    @property
    def needs_row(self) -> bool:
        """Whether several stages are fed from the scan, or a stage and the end."""
        stages = {id(path.config) for path in self.paths}
        return len(stages) + bool(self.ends) > 1

    def apart(self) -> Iterator[StreamPaths]:
        """Split by stage, with one for the ends."""
        by_stage: dict[int, list[PathToStage]] = {}
        for path in self.paths:
            by_stage.setdefault(id(path.config), []).append(path)
        return self._parts([tuple(paths) for paths in by_stage.values()])

    def in_turn(self, queries: Collection[int] = (0,)) -> Iterator[StreamPaths]:
        """Split so that every path of some queries has a scan of its own: all tuples on one come
        before those on the next.  The other paths have one together."""
        alone = [path for path in self.paths if not set(path.config.queries).isdisjoint(queries)]
        others = tuple(path for path in self.paths if path not in alone)
        return self._parts([*([others] if others else []), *((path,) for path in alone)])

    def _parts(self, paths: Sequence[tuple[PathToStage, ...]]) -> Iterator[StreamPaths]:
        parts = [replace(self, paths=each, ends=()) for each in paths]
        parts += [replace(self, paths=())] if self.ends else []
        for number, part in enumerate(parts):
            yield replace(part, counts=self.counts and number == 0)


def stream_paths(
    configs: Iterable[StageConfig],
    ends: Iterable[PathToEnd],
    streams: Mapping[str, StreamDefinition],
) -> list[StreamPaths]:
    """Scans of streams with their paths, one for every stream; `streams` are definitions with all
    columns, as they were before columns were left out."""
    to_stage: dict[str, list[PathToStage]] = {}
    for config in configs:
        for number, path in enumerate(config.stage.paths):
            if isinstance(path.leaf, Scan):
                to_stage.setdefault(path.leaf.stream.name, []).append(PathToStage(config, number))
    to_end: dict[str, list[PathToEnd]] = {}
    for end in ends:
        if isinstance(end.path.leaf, Scan):
            to_end.setdefault(end.path.leaf.stream.name, []).append(end)
    made = []
    for name in dict.fromkeys([*to_stage, *to_end]):
        own, last = tuple(to_stage.get(name, ())), tuple(to_end.get(name, ()))
        leaves = [*(each.path.leaf for each in own), *(each.path.leaf for each in last)]
        scan = scan_for([leaf for leaf in leaves if isinstance(leaf, Scan)], streams[name])
        made.append(StreamPaths(scan, own, last))
    return made


def scan_for(scans: Sequence[Scan], stream: StreamDefinition) -> Scan:
    """Merge scans: the columns of all of them, under the alias of the first."""
    wanted = {name for scan in scans for name in scan.stream.schema.names}
    fields = tuple(field for field in stream.schema if field.name in wanted)
    first = scans[0]
    if len(fields) > len(first.stream.schema.fields):
        first = replace(first, stream=replace(first.stream, schema=Schema(fields)))
    return replace(first, room=reduce(Room.meet, [scan.room for scan in scans]))
