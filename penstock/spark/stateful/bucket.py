"""A bucket of a stage: its operator, the registers of its inputs, its output and its state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter_ns
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.build import drop_all, load_moved, movable, operator_for
from penstock.kernel.operator import LateRows, Measured, Operator, Progress, TakesPartials
from penstock.kernel.progress.group_bounds import GroupBounds, GroupPromises
from penstock.kernel.progress.sub_sources import NOTHING
from penstock.kernel.state import ChunkStore, Tree, Within, required
from penstock.model.arrays import Ints
from penstock.model.clock import Clock, ManualClock
from penstock.model.types import Type
from penstock.optimizer.replanning import algorithm_of, as_tree, can_change_window
from penstock.plan.identity import origins
from penstock.plan.join_trees import Joined
from penstock.plan.nodes.join import Join, Lookup
from penstock.plan.nodes.node import Scan
from penstock.plan.physical import OperatorKind, PhysicalNode
from penstock.plan.properties import scans_of
from penstock.plan.streams import StreamDefinition
from penstock.runs.adaptation import Adapting
from penstock.runs.status import bound_texts
from penstock.spark.stages import Stage, StageConfig, filled
from penstock.spark.stateful.bucket_outputs import BatchOutput, OutputPaths, merged
from penstock.spark.stateful.registers import SourceRegister, StageRegister, StartBounds, slowest
from penstock.spark.tasks.messages import Message, Packed, RowsPiece
from penstock.spark.tasks.paths import split_at_stamp
from penstock.spark.tasks.segments import StatelessSegment


def marked(
    batch: Batch, before: Ints, name: str, segment: StatelessSegment, types: dict[str, Type]
) -> Batch:
    """Add the bounds that rows broke: those that their task knew of, and those from `before`, which
    are ticks of the column `name` of the scan."""
    promised = before > NOTHING
    mapped = segment.bounds({name: before[promised]})
    rows, broken = batch.rows, {}
    for column, sql_type in types.items():
        bounds = np.full(batch.num_rows, NOTHING)
        if column in mapped:
            bounds[promised] = mapped[column]
        own = (batch.broken or {}).get(column)
        if own is not None:
            bounds = np.maximum(bounds, np.asarray(own.fill_null(NOTHING)))
        ticks = to_ticks(rows.column(rows.schema.get_field_index(column)), sql_type)
        broken[column] = pa.array(bounds, mask=ticks >= bounds)
    kept = all(column.null_count == len(column) for column in broken.values())
    return replace(batch, broken=None if kept else broken)


# The bucket: all tuples of a micro-batch are measured against the bounds promised before it.

_TREE = "joined"
_WATCHED = "watched"
Register: TypeAlias = SourceRegister | StageRegister


class Bucket:
    """One bucket of a stage."""

    def __init__(self, config: StageConfig, number: int, now: int) -> None:
        self.config = config
        self.number = number
        self.clock = ManualClock(now)  # the time of the micro-batch
        self.node = config.stage.physical  # what runs; it may be exchanged
        self.operator = _operator(config.stage, number, self.clock)
        self.measured = Measured(self.operator, self.node.operator.value)
        self._adapting = Adapting(config.adaptation, self.clock)
        self._watched = self._adapting.watched(self)
        inputs = config.stage.node.inputs
        self._origins = [origins(each) for each in inputs]  # by port, as the next two
        self._types = [
            {each.field.qualified: each.field.type for each in node.progress} for node in inputs
        ]
        self._seen = [Progress() for _ in inputs]
        self._segments: list[StatelessSegment] = []
        self.registers: list[Register] = []
        for path, parts, feeding in zip(
            config.stage.paths, config.parts, config.feeding, strict=True
        ):
            _, above = split_at_stamp(path)
            self._segments.append(StatelessSegment(above, self.clock))
            if isinstance(path.leaf, Scan):
                register = _source_register(path.leaf, parts, self.clock, config.live)
                self.registers.append(register)
            else:
                before = sum(config.feeding[: len(self.registers)])
                others = sum(config.feeding) - before - feeding
                names = self._origins[path.port]
                self.registers.append(StageRegister(feeding, names, before, others))
        self._output_paths = OutputPaths(config, number, self.clock, self.measured)
        self._identified = False  # whether the state has its identity
        self._moved = False  # whether the store has chunks of another operator
        self._tree: Tree | None = None  # the join tree, if the adaptation has chosen one

    # --- a micro-batch ---------------------------------------------------------------------------

    def process(self, messages: list[Message], now: int) -> Iterator[Packed]:
        """Process the messages of a micro-batch in order, and yield the output.  All tuples are
        measured against the bounds that had been promised before it: tasks do not know of each
        other."""
        self.clock.at = max(self.clock.at, now)
        late = 0
        outgoing = BatchOutput(self._output_paths)
        for message in messages:
            register = self.registers[message.path]
            if isinstance(register, SourceRegister):
                register.add_files(message.joins)
        messages = merged(messages)
        starts = [self._starts(message) for message in messages]
        for message, start in zip(messages, starts, strict=True):
            port = self._port(message.path)
            for piece in message.rows:
                batch = self._marked(message, piece, start)
                items = self.measured.on_batch(port, batch)
                if piece.copies:  # another bucket reports it if they are late
                    items = (item for item in items if not isinstance(item, LateRows))
                yield from outgoing.add(items)
            for tree in message.panes:
                late += self._fold_partials(message, tree, start)
        for message, start in zip(messages, starts, strict=True):
            self._advance(message, start)
        self._detect_idle()
        if self.config.analyzed:
            self._output_paths.look()
        for port, before in enumerate(self._seen):
            reached = slowest([self._progress_on(path) for path in self._paths(port)])
            groups = self._group_bounds_on(port)
            if reached != before or groups is not None:
                items = self.measured.on_progress(port, replace(reached, groups=groups))
                yield from outgoing.add(items)
                self._seen[port] = reached
        yield from outgoing.add(self.measured.on_time(self.clock.now()))
        if self._watched is not None:
            if any(message.panes for message in messages):  # panes are for the planned operator
                self._watched.begin_anew()
            else:
                self._adapting.look([self._watched])
        yield from outgoing.rest(self._sources(), late, self._take_decisions())

    def _port(self, path: int) -> int:
        return self.config.stage.paths[path].port

    def _paths(self, port: int) -> list[int]:
        """Numbers of the paths to a port."""
        paths = self.config.stage.paths
        return [number for number, path in enumerate(paths) if path.port == port]

    def _starts(self, message: Message) -> StartBounds | None:
        register = self.registers[message.path]
        if message.reports is None or not isinstance(register, SourceRegister):
            return None
        return register.join(message.reports)

    def _marked(self, message: Message, piece: RowsPiece, start: StartBounds | None) -> Batch:
        register, batch = self.registers[message.path], piece.batch
        if isinstance(register, StageRegister):
            return register.with_unique_lineage(batch, message.origin)
        if start is None or not register.name:
            return batch
        places = np.zeros(batch.num_rows, np.int64) if batch.places is None else batch.places
        before = start.of_rows(places, batch.numbers)
        if piece.groups is not None and message.groups is not None:
            before = np.maximum(before, register.bounds_of_groups(message.groups)[piece.groups])
        segment = self._segments[message.path]
        types = self._types[self._port(message.path)]
        return marked(batch, before, register.name, segment, types)

    def _fold_partials(self, message: Message, tree: Tree, start: StartBounds | None) -> int:
        """Fold partial results of tuples, which came as early as their sub-source had promised, or
        of results, which are never late; return the number of late tuples."""
        register = self.registers[message.path]
        operator = self._taking_partials()

        def bounds_of(places: Ints) -> Ints:
            bounds = np.full(len(places), NOTHING)
            if start is None or isinstance(register, StageRegister):
                return bounds
            before = start.of_rows(places, None)
            promised = before > NOTHING
            if register.name is not None:
                segment = self._segments[message.path]
                found = operator.promised_by(segment.bounds({register.name: before[promised]}))
                if found is not None:
                    bounds[promised] = found
            return bounds

        begin = perf_counter_ns()
        late = operator.on_partials(tree, bounds_of)
        self.measured.flow.nanoseconds += perf_counter_ns() - begin
        return late

    def _advance(self, message: Message, start: StartBounds | None) -> None:
        register = self.registers[message.path]
        if isinstance(register, StageRegister):
            if message.progress is not None:
                register.advance(message.origin, message.progress)
            return
        register.raise_groups(message.promised)
        if not message.more:
            if message.reports is not None and start is not None:
                register.advance(start, message.reports, message.high)
            register.remove_files(message.leaves)
            register.ended = register.ended or message.ended
            if message.promise is not None and register.name is not None:
                register.raise_to(message.promise)

    def _detect_idle(self) -> None:
        for register in self.registers:
            if isinstance(register, SourceRegister) and register.idle is not None:
                register.idle.wait(register.high)

    @property
    def looks_at_clock(self) -> int | None:
        """Next wake-up time, or None: a source may be idle, or early answers are due."""
        due = [
            register.idle.due()
            for register in self.registers
            if isinstance(register, SourceRegister) and register.idle and not register.ended
        ]
        answers = self.operator.due()
        if answers is not None:
            due.append(answers)
        return min(due, default=None)

    def _progress_on(self, path: int) -> Progress:
        register = self.registers[path]
        reached = register.progress()
        # progress of another stage has gone through the steps before it was sent
        return (
            reached
            if isinstance(register, StageRegister)
            else self._segments[path].progress(reached)
        )

    def _group_bounds_on(self, port: int) -> GroupBounds | None:
        """New bounds of single groups on a port, or None.  Where other tuples come to the port,
        too, they say nothing about those; and where results are counted, no group leaves ahead of
        others."""
        bounds = None
        for path in (paths := self._paths(port)):
            register = self.registers[path]
            if isinstance(register, SourceRegister):
                bounds = register.new_group_bounds()
                if bounds is not None:
                    bounds = self._segments[path].progress(Progress(groups=bounds)).groups
        alone = len(paths) == 1 and not self.config.stage.physical.whole_windows
        return bounds if alone else None

    def _sources(self) -> Tree:
        """Status of the sources, from the first bucket only: all buckets know the same."""
        if self.number:
            return []
        return [
            _source_status(path.leaf.stream, register)
            for path, register in zip(self.config.stage.paths, self.registers, strict=True)
            if isinstance(path.leaf, Scan) and isinstance(register, SourceRegister)
        ]

    # --- exchange of the operator ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the bucket in decisions: EXPLAIN has the numbers of stages for a single query
        only."""
        kind, stage = type(self.node.logical).__name__, self.config.identity.stage
        streams = dict.fromkeys(scan.stream.name for scan in scans_of(self.node.logical))
        return f"{kind} of {', '.join(streams)}, stage {stage}, bucket {self.number}"

    @property
    def is_clear(self) -> bool:
        """Whether no item waits: always so at the end of a micro-batch."""
        return True

    def told(self, port: int) -> Progress | None:
        """Progress that the operator has seen on a port."""
        return self._seen[port]

    def exchange(self, node: PhysicalNode, operator: Operator) -> None:
        """Exchange the operator; its state is written as a whole the next time."""
        movable(operator).adopt(movable(self.operator).export())
        self.operator = self.measured.operator = operator
        self.node, self.measured.name = node, node.operator.value
        self._moved, self._identified = True, False
        if isinstance(node.logical, Join) and node.logical.tree is not None:
            self._tree = node.logical.tree.save()

    def _taking_partials(self) -> TakesPartials:
        """Operator that folds partial results: the planned one, which replaces another if panes
        come now."""
        if not isinstance(self.operator, TakesPartials):
            assert self._watched is not None, "nobody else has exchanged it"
            planned = self.config.stage.physical
            before, after = algorithm_of(self.node).name, algorithm_of(planned).name
            because = "tuples come folded into panes"
            self._adapting.change(self._watched, planned, before, after, because)
        return cast(TakesPartials, self.operator)

    def _restore_decision(self, store: ChunkStore, was: str | None) -> None:
        """Restore the operator that the adaptation has chosen, in another worker or an earlier
        run."""
        if self._watched is None:
            return
        self._tree = store.get(_TREE)
        if self._tree is not None:
            self.node = as_tree(self.node, Joined.load(self._tree))
        elif was is not None and can_change_window(self.node):
            decided = replace(self.node, operator=OperatorKind(was))
            self.node = decided if can_change_window(decided) else self.node
        self.operator = self.measured.operator = operator_for(self.node, self.clock)
        self.measured.name = self.node.operator.value

    def _take_decisions(self) -> Tree:
        """Take the decisions since the last call."""
        decisions = [each.save() for each in self._adapting.decisions]
        self._adapting.decisions.clear()
        return decisions

    # --- state -----------------------------------------------------------------------------------

    def save(self, store: ChunkStore) -> None:
        own = Within(store, "operator/")
        if self._moved:
            drop_all(own)
            self._moved = False
        if not self._identified:
            self.config.identity.write(store, self.node.operator.value)
            if self._tree is not None:
                store.put(_TREE, self._tree)
            self._identified = True
        self.operator.save(own)
        self._output_paths.save(store)
        for number, register in enumerate(self.registers):
            register.save(Within(store, f"entry {number}/"))
        for port, told in enumerate(self._seen):
            store.put(_progress_key(port), told.save(self._origins[port]))
        store.put("run", self.config.token)
        if self._watched is not None:
            store.put(_WATCHED, self._watched.save())

    def load(self, store: ChunkStore) -> None:
        self._identified = self.config.identity.owns(store)  # before anything else is read
        if not self._identified:
            return
        goes_on = store.get("run") == self.config.token
        for number, register in enumerate(self.registers):
            own = Within(store, f"entry {number}/")
            register.load(own)
            if goes_on and isinstance(register, SourceRegister):
                register.resume_silence(own)
        self._seen = [
            Progress.load(required(store, _progress_key(port)), self._origins[port])
            for port in range(len(self._seen))
        ]
        self._load_operator(store)
        seen = store.get(_WATCHED)
        if goes_on and seen is not None and self._watched is not None:
            self._watched.load(seen)  # another worker has watched the operator so far

    def _load_operator(self, store: ChunkStore) -> None:
        """Restore the operator; state of another algorithm moves."""
        self._output_paths.load(store)
        said = self.config.identity.operator(store)
        self._restore_decision(store, said)
        node = self.node
        was = said or node.operator.value
        own = Within(store, "operator/")
        self._moved = load_moved(self.operator, node, was, own, self.clock)
        self._identified = not self._moved


def _operator(stage: Stage, bucket: int, clock: Clock) -> Operator:
    if isinstance(stage.node, Lookup):
        return filled(stage.node, stage.files[bucket])
    return operator_for(stage.physical, clock)


def _progress_key(port: int) -> str:
    return f"told {port}" if port else "told"


def _source_status(stream: StreamDefinition, register: SourceRegister) -> Tree:
    texts = bound_texts(stream, register.low, register.high)
    return {"stream": stream.name, **register.status(), **texts}


def _source_register(
    scan: Scan, parts: tuple[str, ...], clock: Clock, live: bool
) -> SourceRegister:
    stream = scan.stream
    if stream.progress is None:
        return SourceRegister(None, None, [], clock)
    name = scan.schema.fields[stream.schema.index(stream.attribute.name)].qualified
    said = stream.progress.group_punctuation
    groups = None
    if said is not None:
        groups = GroupPromises(said.group, stream.schema, name, scan.schema.arrow.names)
    return SourceRegister(stream.progress, name, list(parts), clock, live, groups)
