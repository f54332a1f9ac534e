"""Joint punctuation (section 7.2): groups by both times leave sooner, and are the same groups."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, Progress
from penstock.model.clock import ManualClock
from penstock.model.punctuation import JointPunctuation
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.aggregation import GroupAggregate
from penstock.reference.engine import evaluate
from penstock.reference.relation import Run
from tests.kernel.joins.feeding import new
from tests.kernel.restarting import Restarting
from tests.reference.helpers import Stream, ask, bag, tuples

Q7_1 = (
    "SELECT {keys}, count(*) AS pairs FROM l [RANGE 2, WA t], r [RANGE 2, WA t] WHERE l.k = r.k"
    " GROUP BY {keys}"
)
LEFT = [("a", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 4), ("a", 6)]
RIGHT = [("a", 1), ("a", 1), ("b", 0), ("b", 2), ("a", 3), ("b", 5), ("a", 8)]


def left_by(keys: str, jointly: bool) -> list[tuple[int, tuple[int, int, int]]]:
    """Which groups leave after how many items, if both streams come in step, value by value."""
    promise = ps.progress("t", delay=9)
    streams = {
        "l": Stream("k STRING, t INT", LEFT, promise),
        "r": Stream("k STRING, t INT", RIGHT, promise),
    }
    query = ask(Q7_1.format(keys=keys), **streams)
    grouped = next(node for node in query.plan.walk() if isinstance(node, GroupAggregate))
    join = grouped.input
    operators = [new(join), operator_for(lower_node(grouped), ManualClock())]  # type: ignore[arg-type]
    found: list[tuple[int, tuple[int, int, int]]] = []
    for step, (port, item) in enumerate(in_step()):
        for made in _through(operators, port, item, jointly):
            if isinstance(made, Batch):
                rows = tuples(pa.Table.from_batches([made.rows]))
                found += [(step, row) for row in rows]  # type: ignore[misc]
    expected = evaluate(grouped, Run(clock=ManualClock())).rows
    assert bag(row for _, row in found) == bag(row.values for row in expected)
    return found


def in_step() -> list[tuple[int, Item]]:
    items: list[tuple[int, Item]] = []
    sides = ((0, "l", LEFT), (1, "r", RIGHT))
    for now in range(9):
        for port, name, rows in sides:
            of = [row for row in rows if row[1] == now]
            if of:
                keys, times = pa.array([k for k, _ in of]), pa.array([t for _, t in of], pa.int32())
                batch = pa.RecordBatch.from_arrays([keys, times], [f"{name}.k", f"{name}.t"])
                items.append((port, Batch(batch)))
        items += [(port, Progress({f"{name}.t": now + 1})) for port, name, _ in sides]
    return [*items, (0, Progress(ended=True)), (1, Progress(ended=True))]


def _through(operators: list, port: int, item: Item, jointly: bool) -> list[Item]:  # type: ignore[type-arg]
    join, grouped = operators
    give = join.on_progress if isinstance(item, Progress) else join.on_batch
    made: list[Item] = []
    for each in give(port, item):
        if isinstance(each, Progress):
            given = each if jointly else replace(each, joint=())
            made += grouped.on_progress(0, given)
        else:
            made += grouped.on_batch(0, each)
    return made


@pytest.mark.parametrize("keys", ["l.t, r.t", "r.t, l.t", "l.t + 1, r.t", "l.t, l.k, r.t"])
def test_groups_leave_sooner_and_are_the_same(keys: str) -> None:
    alone = {row: step for step, row in left_by(keys, jointly=False)}
    together = {row: step for step, row in left_by(keys, jointly=True)}
    assert alone.keys() == together.keys()
    assert all(together[row] <= alone[row] for row in alone)
    assert sum(together[row] < alone[row] for row in alone) > len(alone) / 2


def test_a_group_by_one_of_them_waits() -> None:
    assert left_by("l.t, l.k", jointly=True) == left_by("l.t, l.k", jointly=False)


def test_what_has_left_does_not_leave_again() -> None:
    query = ask(
        Q7_1.format(keys="l.t, r.t"),
        **{name: Stream("k STRING, t INT", [], ps.progress("t", ordered=True)) for name in "lr"},
    )
    grouped = next(node for node in query.plan.walk() if isinstance(node, GroupAggregate))
    operator = Restarting(lambda: operator_for(lower_node(grouped), ManualClock()))
    columns = [
        pa.array(["a"] * 3),
        pa.array([1, 2, 5], pa.int32()),
        pa.array(["a"] * 3),
        pa.array([1, 3, 5], pa.int32()),
    ]
    names = ["l.k", "l.t", "r.k", "r.t"]
    list(operator.on_batch(0, Batch(pa.RecordBatch.from_arrays(columns, names))))
    joint = (JointPunctuation(("r.t", "l.t"), (4, 3)),)
    first, _ = list(operator.on_progress(0, Progress({"l.t": 0, "r.t": 0}, joint=joint)))
    assert isinstance(first, Batch)
    assert first.num_rows == 2
    (progress,) = list(operator.on_progress(0, Progress({"l.t": 0, "r.t": 1})))
    assert isinstance(progress, Progress)
    last, _ = list(operator.on_progress(0, Progress(ended=True)))
    assert isinstance(last, Batch)
    assert last.num_rows == 1
