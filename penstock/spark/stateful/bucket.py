"""Tuples of a task beside the bounds that had been promised before their micro-batch."""

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
from penstock.spark.stateful.bucket_outputs import Exits, Leaves, merged
from penstock.spark.stateful.registers import SourceRegister, StageRegister, Starts, slowest
from penstock.spark.tasks.messages import Message, Packed, RowsPiece
from penstock.spark.tasks.paths import split_at_stamp
from penstock.spark.tasks.segments import Chain


def marked(batch: Batch, before: Ints, name: str, chain: Chain, types: dict[str, Type]) -> Batch:
    """The batch with the bounds that its rows broke: those that their task knew of, and those from
    `before`, which are ticks of the column `name` of the scan."""
    promised = before > NOTHING
    mapped = chain.bounds({name: before[promised]})
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


# One bucket of a stage: the operator, what had been promised to it, and where its results go.

_TREE = "joined"
_WATCHED = "watched"
Register: TypeAlias = SourceRegister | StageRegister


class Bucket:
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
        self._origins = [origins(each) for each in inputs]  # by port, as all that follow
        self._types = [
            {each.field.qualified: each.field.type for each in node.progress} for node in inputs
        ]
        self._told = [Progress() for _ in inputs]
        self._chains: list[Chain] = []
        self.registers: list[Register] = []
        for entry, parts, feeding in zip(
            config.stage.entries, config.parts, config.feeding, strict=True
        ):
            _, above = split_at_stamp(entry)
            self._chains.append(Chain(above, self.clock))
            if isinstance(entry.leaf, Scan):
                register = _source_register(entry.leaf, parts, self.clock, config.live)
                self.registers.append(register)
            else:
                before = sum(config.feeding[: len(self.registers)])
                others = sum(config.feeding) - before - feeding
                names = self._origins[entry.port]
                self.registers.append(StageRegister(feeding, names, before, others))
        self._exits = Exits(config, number, self.clock, self.measured)
        self._identified = False  # whether the state says whose it is
        self._moved = False  # whether the store has chunks of another operator
        self._tree: Tree | None = None  # how streams are joined, if that was decided on

    # --- a micro-batch ---------------------------------------------------------------------------

    def take_in(self, messages: list[Message], now: int) -> Iterator[Packed]:
        """Everything that the micro-batch has for this bucket, in order.  All of its tuples are
        measured against what had been promised before it: tasks do not know of each other."""
        self.clock.at = max(self.clock.at, now)
        late = 0
        outgoing = Leaves(self._exits)
        for message in messages:
            register = self.registers[message.entry]
            if isinstance(register, SourceRegister):
                register.let_in_files(message.joins)
        messages = merged(messages)
        starts = [self._starts(message) for message in messages]
        for message, start in zip(messages, starts, strict=True):
            port = self._port(message.entry)
            for piece in message.rows:
                batch = self._marked(message, piece, start)
                items = self.measured.on_batch(port, batch)
                if piece.copies:  # another bucket tells if they are late
                    items = (item for item in items if not isinstance(item, LateRows))
                yield from outgoing.add(items)
            for tree in message.panes:
                late += self._take_partials(message, tree, start)
        for message, start in zip(messages, starts, strict=True):
            self._advance(message, start)
        self._look_for_idle()
        if self.config.analyzed:
            self._exits.look()
        for port, before in enumerate(self._told):
            told = slowest([self._told_by(entry) for entry in self._entries(port)])
            groups = self._told_of_groups(port)
            if told != before or groups is not None:
                items = self.measured.on_progress(port, replace(told, groups=groups))
                yield from outgoing.add(items)
                self._told[port] = told
        yield from outgoing.add(self.measured.on_time(self.clock.now()))
        if self._watched is not None:
            if any(message.panes for message in messages):  # which are for the one that is planned
                self._watched.begin_anew()
            else:
                self._adapting.look([self._watched])
        yield from outgoing.rest(self._sources(), late, self._decided())

    def _port(self, entry: int) -> int:
        return self.config.stage.entries[entry].port

    def _entries(self, port: int) -> list[int]:
        """The ways to a port."""
        entries = self.config.stage.entries
        return [number for number, entry in enumerate(entries) if entry.port == port]

    def _starts(self, message: Message) -> Starts | None:
        register = self.registers[message.entry]
        if message.reports is None or not isinstance(register, SourceRegister):
            return None
        return register.join(message.reports)

    def _marked(self, message: Message, piece: RowsPiece, start: Starts | None) -> Batch:
        register, batch = self.registers[message.entry], piece.batch
        if isinstance(register, StageRegister):
            return register.told_apart(batch, message.origin)
        if start is None or not register.name:
            return batch
        places = np.zeros(batch.num_rows, np.int64) if batch.places is None else batch.places
        before = start.of_rows(places, batch.numbers)
        if piece.groups is not None and message.groups is not None:
            before = np.maximum(before, register.of_groups(message.groups)[piece.groups])
        chain = self._chains[message.entry]
        types = self._types[self._port(message.entry)]
        return marked(batch, before, register.name, chain, types)

    def _take_partials(self, message: Message, tree: Tree, start: Starts | None) -> int:
        """Partial results of tuples, which came as early as what their sub-source had promised, or
        of results, which are never late; how many tuples missed windows."""
        register = self.registers[message.entry]
        operator = self._taking_partials()

        def bounds_of(places: Ints) -> Ints:
            bounds = np.full(len(places), NOTHING)
            if start is None or isinstance(register, StageRegister):
                return bounds
            before = start.of_rows(places, None)
            promised = before > NOTHING
            if register.name is not None:
                chain = self._chains[message.entry]
                found = operator.promised_by(chain.bounds({register.name: before[promised]}))
                if found is not None:
                    bounds[promised] = found
            return bounds

        begin = perf_counter_ns()
        late = operator.on_partials(tree, bounds_of)
        self.measured.flow.nanoseconds += perf_counter_ns() - begin
        return late

    def _advance(self, message: Message, start: Starts | None) -> None:
        register = self.registers[message.entry]
        if isinstance(register, StageRegister):
            if message.progress is not None:
                register.advance(message.origin, message.progress)
            return
        register.raise_groups(message.promised)
        if not message.more:
            if message.reports is not None and start is not None:
                register.advance(start, message.reports, message.high)
            register.leave_out_files(message.leaves)
            register.ended = register.ended or message.ended
            if message.promise is not None and register.name is not None:
                register.raise_to(message.promise)

    def _look_for_idle(self) -> None:
        for register in self.registers:
            if isinstance(register, SourceRegister) and register.idle is not None:
                register.idle.wait(register.high)

    @property
    def looks_at_clock(self) -> int | None:
        """When time alone may have something to say: a source may be idle, or answers are due."""
        due = [
            register.idle.due()
            for register in self.registers
            if isinstance(register, SourceRegister) and register.idle and not register.ended
        ]
        answers = self.operator.due()
        if answers is not None:
            due.append(answers)
        return min(due, default=None)

    def _told_by(self, entry: int) -> Progress:
        register = self.registers[entry]
        told = register.progress()
        # what comes from another stage has gone through its steps before it was sent
        return told if isinstance(register, StageRegister) else self._chains[entry].progress(told)

    def _told_of_groups(self, port: int) -> GroupBounds | None:
        """What has been promised for single groups.  Where other tuples come to the port, too, it
        says nothing about those; and where results are counted, no group leaves ahead of others."""
        told = None
        for entry in (entries := self._entries(port)):
            register = self.registers[entry]
            if isinstance(register, SourceRegister):
                told = register.told_of_groups()
                if told is not None:
                    told = self._chains[entry].progress(Progress(groups=told)).groups
        alone = len(entries) == 1 and not self.config.stage.physical.whole_windows
        return told if alone else None

    def _sources(self) -> Tree:
        """How far the sources have come, and who holds them back: the first bucket knows what all
        know, and says it."""
        if self.number:
            return []
        return [
            _told_of(entry.leaf.stream, register)
            for entry, register in zip(self.config.stage.entries, self.registers, strict=True)
            if isinstance(entry.leaf, Scan) and isinstance(register, SourceRegister)
        ]

    # --- another operator ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """For people who read decisions: EXPLAIN has the numbers of stages, for a query alone."""
        kind, stage = type(self.node.logical).__name__, self.config.identity.stage
        streams = dict.fromkeys(scan.stream.name for scan in scans_of(self.node.logical))
        return f"{kind} of {', '.join(streams)}, stage {stage}, bucket {self.number}"

    @property
    def is_clear(self) -> bool:
        """At the end of a micro-batch nothing waits."""
        return True

    def told(self, port: int) -> Progress | None:
        return self._told[port]

    def exchange(self, node: PhysicalNode, operator: Operator) -> None:
        """Another operator goes on; its state is written as a whole the next time."""
        movable(operator).adopt(movable(self.operator).export())
        self.operator = self.measured.operator = operator
        self.node, self.measured.name = node, node.operator.value
        self._moved, self._identified = True, False
        if isinstance(node.logical, Join) and node.logical.tree is not None:
            self._tree = node.logical.tree.save()

    def _taking_partials(self) -> TakesPartials:
        """The operator of the plan, if tuples that came as they are are folded now."""
        if not isinstance(self.operator, TakesPartials):
            assert self._watched is not None, "nobody else has exchanged it"
            planned = self.config.stage.physical
            before, after = algorithm_of(self.node).name, algorithm_of(planned).name
            because = "tuples come folded into panes"
            self._adapting.change(self._watched, planned, before, after, because)
        return cast(TakesPartials, self.operator)

    def _go_on_as_decided(self, store: ChunkStore, was: str | None) -> None:
        """With what was decided on, by another worker or in an earlier run."""
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

    def _decided(self) -> Tree:
        """What has been decided since the last time that somebody asked."""
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
        self._exits.save(store)
        for number, register in enumerate(self.registers):
            register.save(Within(store, f"entry {number}/"))
        for port, told in enumerate(self._told):
            store.put(_told_name(port), told.save(self._origins[port]))
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
                register.go_on_waiting(own)
        self._told = [
            Progress.load(required(store, _told_name(port)), self._origins[port])
            for port in range(len(self._told))
        ]
        self._load_operator(store)
        seen = store.get(_WATCHED)
        if goes_on and seen is not None and self._watched is not None:
            self._watched.load(seen)  # another worker has looked at the operator so far

    def _load_operator(self, store: ChunkStore) -> None:
        """State that is of another algorithm moves."""
        self._exits.load(store)
        said = self.config.identity.operator(store)
        self._go_on_as_decided(store, said)
        node = self.node
        was = said or node.operator.value
        own = Within(store, "operator/")
        self._moved = load_moved(self.operator, node, was, own, self.clock)
        self._identified = not self._moved


def _operator(stage: Stage, bucket: int, clock: Clock) -> Operator:
    if isinstance(stage.node, Lookup):
        return filled(stage.node, stage.files[bucket])
    return operator_for(stage.physical, clock)


def _told_name(port: int) -> str:
    return f"told {port}" if port else "told"


def _told_of(stream: StreamDefinition, register: SourceRegister) -> Tree:
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
