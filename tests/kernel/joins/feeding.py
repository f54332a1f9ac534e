"""Driving a join by itself: the items of its two inputs come in any order, and everything that it
promises is held against what it gives later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.batch import Batch
from penstock.kernel.bounds import to_ticks
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, LateRows, Operator, Progress
from penstock.model.clock import ManualClock
from penstock.model.punctuation import BEGINNING, END, Bound, JointPunctuation
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.join import Join
from penstock.plan.nodes.query import QueryPlan
from tests.kernel.driving import items

Port = int


def join_of(plan: QueryPlan) -> Join:
    (found,) = (node for node in plan.walk() if isinstance(node, Join))
    return found


def new(node: Join) -> Operator:
    return operator_for(lower_node(node), ManualClock())


def items_of(node: Join, picks: Sequence[int]) -> Iterator[tuple[Port, Item]]:
    """What comes at both ports; `picks` says at which one next, again and again."""
    inputs = [items(branch, {}, ManualClock()) for branch in node.branches]
    left, step = [0, 1], 0
    while left:
        port = left[(picks[step % len(picks)] if picks else 0) % len(left)]
        step += 1
        item = next(inputs[port], None)
        if item is None:
            left.remove(port)
        else:
            yield port, item


@dataclass
class Outcome:
    rows: list[Batch] = field(default_factory=list)
    late: list[pa.RecordBatch] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches([batch.rows for batch in self.rows])


def feed(
    node: Join,
    given: Iterator[tuple[Port, Item]],
    operator: Operator | None = None,
    after: Callable[[Operator, Port, Item], None] | None = None,
) -> Outcome:
    """Give items to a join; `after` every one, somebody may look at it."""
    operator = operator or new(node)
    outcome, kept = Outcome(), Kept(node)
    for port, item in given:
        if isinstance(item, Progress):
            made = operator.on_progress(port, item)
        else:
            assert isinstance(item, Batch)
            made = operator.on_batch(port, item)
        for each in made:
            match each:
                case Progress():
                    outcome.progress.append(each)
                    kept.promise(each)
                case LateRows():
                    outcome.late.append(each.batch)
                case Batch():
                    kept.check(each)
                    outcome.rows.append(each)
        if after is not None:
            after(operator, port, item)
    assert kept.last.ended
    return outcome


class Kept:
    """Promises, which nothing that follows may break, and none of which is made twice."""

    def __init__(self, node: Join) -> None:
        self._schema = node.schema
        self._types = {each.field.qualified: each.field.type for each in node.progress}
        self.last = Progress()
        self._joint: list[JointPunctuation] = []

    def promise(self, made: Progress) -> None:
        assert not self.last.ended
        said = (made.bounds, made.joint, made.ended)
        assert said != (self.last.bounds, self.last.joint, self.last.ended)
        assert made.ended or set(made.bounds) <= set(self._types)
        for name, bound in self.last.bounds.items():
            assert made.ended or made.bounds[name] >= bound
        self.last = made
        self._joint += made.joint

    def check(self, batch: Batch) -> None:
        assert not self.last.ended
        assert batch.rows.schema == self._schema.arrow
        assert batch.num_rows
        for name, bound in self.last.bounds.items():
            assert (self._ticks(batch, name) >= bound).all()
        for each in self._joint:
            one, other = (self._ticks(batch, name) for name in each.attributes)
            below = (one < each.bounds[0]) & (other < each.bounds[1])
            assert not below.any()

    def _ticks(self, batch: Batch, name: str) -> np.ndarray:
        column = batch.rows.column(batch.rows.schema.names.index(name))
        return to_ticks(column, self._types[name])


class Needed:
    """Which tuples in time can still find partners, by the window and by what was promised."""

    def __init__(self, node: Join) -> None:
        self._node = node
        self._ticks: tuple[list[int], list[int]] = ([], [])
        self._bounds: list[Bound] = [BEGINNING, BEGINNING]

    def take_in(self, port: Port, item: Item) -> None:
        attribute = self._node.attributes[port]
        name = self._node.branches[port].schema.arrow.names[
            attribute.position(self._node.branches[port].schema)
        ]
        if isinstance(item, Progress):
            bound = END if item.ended else item.bounds.get(name, BEGINNING)
            self._bounds[port] = max(self._bounds[port], bound)
        elif isinstance(item, Batch):
            found = to_ticks(item.rows.column(name), attribute.type)
            if item.broken is not None:
                found = found[np.asarray(item.broken[name].is_null())]
            self._ticks[port].extend(found.tolist())
        window = self._node.window.between(0, 1)
        assert window is not None
        for own, bounds in ((0, window.partner_bounds), (1, window.partner_bounds_of_right)):
            limit = self._bounds[1 - own]
            self._ticks[own][:] = [t for t in self._ticks[own] if bounds(t)[1] >= limit]

    @property
    def rows(self) -> int:
        return sum(map(len, self._ticks))
