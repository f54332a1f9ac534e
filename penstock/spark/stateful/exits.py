"""From the operator of a bucket to all places where its results go.

Most have one place.  What several queries share goes to each of them: through a part of its own in
the same bucket where queries make different things of it, or as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.model.clock import Clock
from penstock.operators.batch import Batch
from penstock.operators.build import operator_for
from penstock.operators.measured import Measured
from penstock.operators.metrics import Metrics
from penstock.operators.operator import Item, LateRows, Operator, Progress
from penstock.operators.windows.shared.shared_panes import SharedPanesOperator
from penstock.operators.windows.shared.windows_of_panes import WindowsOfPanesOperator
from penstock.physical.node import PhysicalNode
from penstock.plan.nodes.query import Late
from penstock.spark.plan.config import StageConfig
from penstock.spark.stateful.leaving import BucketOutput, Leaving
from penstock.spark.tasks.messages import Packed, PackedKind, pack_rows
from penstock.spark.tasks.step_work import work_done
from penstock.state.chunks import ChunkStore, Tree, Within, pack


class Exits:
    def __init__(self, config: StageConfig, bucket: int, clock: Clock, measured: Measured) -> None:
        self.config = config
        self._measured = measured
        self.parts = [
            _part(f"{number}", node, measured.operator, clock)
            for number, node in enumerate(config.stage.parts)
        ]
        self.leaving = [Leaving(config, each, bucket, clock) for each in config.destinations]
        self.of_part: list[list[int]] = [[] for _ in range(max(1, len(self.parts)))]
        for place, each in enumerate(config.destinations):
            self.of_part[each.part].append(place)
        self._most = [Metrics(0, 0, 0) for _ in range(1 + len(self.parts))]

    def look(self) -> None:
        """Remember the most that operators have kept."""
        for place, measured in enumerate([self._measured, *self.parts]):
            most, now = self._most[place], measured.operator.metrics()
            self._most[place] = Metrics(max(most.rows, now.rows), max(most.bytes, now.bytes), 0)

    def status(self, sources: Tree, decisions: Tree) -> dict[int, Tree]:
        """How the operators of each query are doing, with what is known of `sources`, and what has
        been decided."""
        token, told = self.config.token, dict[int, list[Tree]]()
        first, *others = self._most
        own = _status(token, self._measured, first)
        named = zip(self.parts, others, strict=True)
        parts = [_status(f"{token}/{n}", *part) for n, part in enumerate(named)]
        for each in self.config.destinations:
            known = told.setdefault(each.query, [own])
            if parts and parts[each.part] not in known:
                known.append(parts[each.part])
        return {
            query: {"sources": sources, "operators": known, "decisions": decisions}
            for query, known in told.items()
        }

    def save(self, store: ChunkStore) -> None:
        for number, part in enumerate(self.parts):
            part.operator.save(Within(store, f"part {number}/"))

    def load(self, store: ChunkStore) -> None:
        """Before the operator that all of them share."""
        for number, part in enumerate(self.parts):
            part.operator.load(Within(store, f"part {number}/"))


class Leaves:
    """What leaves a bucket in a micro-batch."""

    def __init__(self, exits: Exits) -> None:
        self._exits = exits
        self._outputs = [BucketOutput(each) for each in exits.leaving]
        self._late: Counter[int] = Counter()  # by query

    def add(self, items: Iterable[Item]) -> Iterator[Packed]:
        parts = self._exits.parts
        if not parts:
            yield from self._out(0, items)
            return
        for item in items:
            for number, part in enumerate(parts):
                yield from self._out(number, _given(part, item))

    def _out(self, part: int, items: Iterable[Item]) -> Iterator[Packed]:
        places = self._exits.of_part[part]
        for item in items:
            for place in places:
                if isinstance(item, LateRows):
                    yield from self._add_late(place, item.batch)
                elif isinstance(item, Progress):
                    self._outputs[place].tell(item)
                else:
                    yield from self._outputs[place].add(item)

    def _add_late(self, place: int, rows: pa.RecordBatch) -> Iterator[Packed]:
        """A tuple is late as often as it is asked for."""
        leaving = self._exits.leaving[place]
        destination = leaving.destination
        self._late[destination.query] += rows.num_rows * destination.times
        if destination.late is not Late.DROP:
            payload = pack_rows(rows)
            for _ in range(destination.times):
                yield Packed(leaving.key, PackedKind.LATE, payload, query=destination.query)

    def rest(self, sources: Tree, late: int, decisions: Tree) -> Iterator[Packed]:
        """What has not left, and how the bucket is doing; so many tuples were late that nobody has
        seen one by one."""
        keys: dict[int, int] = {}
        for leaving, output in zip(self._exits.leaving, self._outputs, strict=True):
            yield from output.rest()
            query = leaving.destination.query
            keys.setdefault(query, leaving.key)
            self._late[query] += late * leaving.destination.times
        for query, status in self._exits.status(sources, decisions).items():
            number = self._late[query]
            yield Packed(keys[query], PackedKind.STATUS, pack(status), late=number, query=query)
        if self._exits.config.analyzed:
            done = [work for leaving in self._exits.leaving for work in leaving.work()]
            yield Packed(self._exits.leaving[0].key, PackedKind.STATUS, work_done(done))


def _part(name: str, node: PhysicalNode, folding: Operator, clock: Clock) -> Measured:
    operator = operator_for(node, clock)
    assert isinstance(operator, WindowsOfPanesOperator)
    assert isinstance(folding, SharedPanesOperator)
    operator.share(folding, name)
    return Measured(operator, node.operator.value)


def _given(part: Measured, item: Item) -> Iterable[Item]:
    if isinstance(item, Progress):
        return part.on_progress(0, item)
    assert isinstance(item, Batch)
    return part.on_batch(0, item)


def _status(name: str, measured: Measured, most: Metrics) -> Tree:
    open_ = measured.operator.open_results().save()
    kept = [most.rows, most.bytes]
    return {"stage": name, "operator": measured.status().save(), "open": open_, "most": kept}
