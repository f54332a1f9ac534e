"""A save writes what was touched since the last one, however much is kept besides."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import Item, Operator, Progress
from penstock.kernel.state import MemoryStore, Tree
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import lower_node
from penstock.plan.nodes.node import Node
from tests.kernel.driving import Row, Stream, items, planned

SELECTS = {
    "paned": "SELECT /*+ paned */ k, sum(i) [RANGE 100, SLIDE 10, WA t] FROM s GROUP BY k",
    "wid": "SELECT /*+ wid */ k, sum(i) [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k",
    "two levels": "SELECT /*+ two_level */ k, sum(i) [RANGE 100, SLIDE 10, WA t] FROM s GROUP BY k",
    "adaptive": "SELECT /*+ adaptive */ k, sum(i) [RANGE 20, SLIDE 10, WA t] FROM s GROUP BY k",
    "buffering": "SELECT /*+ buffering */ k, sum(i) [RANGE 100, SLIDE 10, WA t] FROM s GROUP BY k",
    "landmark": "SELECT k, sum(i) [RANGE ALL, SLIDE 10, WA t] FROM s GROUP BY k",
    "rows": "SELECT k, sum(i) [RANGE 20000 ROWS, SLIDE 3 ROWS, WA row-num] FROM s GROUP BY k",
    "rows of partitions": "SELECT sum(i) [RANGE 7 ROWS, SLIDE 3 ROWS, WA row-num, PA k] FROM s",
    "panes of partitions": "SELECT sum(i) [RANGE 99 ROWS, SLIDE 33 ROWS, WA row-num, PA k] FROM s",
    "all of partitions": "SELECT sum(i) [RANGE ALL, SLIDE 3 ROWS, WA row-num, PA k] FROM s",
    "rank": "SELECT sum(i) [RANGE 7 ROWS, SLIDE 3 ROWS, WA rank(t), PA k] FROM s",
    "bins": "SELECT sum(i) [RANGE 50, RATTR t, SLIDE 3 ROWS, SATTR row-num, PA k] FROM s",
    "groups": "SELECT t, k, sum(i) FROM s GROUP BY t, k",
    "distinct": "SELECT DISTINCT t, k FROM s",
}


class Weighed(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def put(self, key: str, chunk: Tree) -> None:
        super().put(key, chunk)
        self.written += len(key) + len(self.packed[key])


def through(operator: Operator, given: Iterable[Item]) -> None:
    for item in given:
        made = operator.on_progress if isinstance(item, Progress) else operator.on_batch
        list(made(0, item))  # type: ignore[operator]


def written_at_last(sql: str, delay: int, size: int) -> tuple[int, int]:
    """The bytes of the save after one more tuple, and of all that is kept then."""
    rows: list[Row] = [("d", f"k{n}", n % 100, 1.0, n // 100) for n in range(size)]
    rows.append(("d", "k5", 7, 1.0, rows[-1][4] + 1))
    plan = planned(sql, Stream(rows, {"delay": delay}), cut=500)
    node: Node = next(each for each in plan.walk() if each.stateful)
    operator, store = operator_for(lower_node(node), ManualClock()), Weighed()
    given = list(items(node.inputs[0], {}, ManualClock()))[:-1]  # without the end
    last = [isinstance(item, Batch) for item in given][::-1].index(True) + 1
    through(operator, given[:-last])
    operator.save(store)
    before = store.written
    through(operator, given[-last:])
    operator.save(store)
    return store.written - before, sum(map(len, store.packed.values()))


@pytest.mark.parametrize("name", SELECTS)
def test_a_save_does_not_grow_with_what_is_kept(name: str) -> None:
    delay = 0 if name in ("landmark", "rank") else 1000  # else nothing is passed, all is kept
    few, kept = written_at_last(SELECTS[name], delay, 4_000)
    many, much = written_at_last(SELECTS[name], delay, 12_000)
    assert much > 2 * kept
    assert many < 1.2 * few + 500
