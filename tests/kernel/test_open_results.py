"""What is open: windows with tuples that are not out, groups, partitions; after a restart, too."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import OpenResults, Operator, Progress
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.plan.algorithms import Algorithm
from tests.planning import in_process

ROWS = [("a", 1), ("b", 3), ("a", 14), ("c", 27)]
SLIDING = "SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t{}] FROM s GROUP BY k"
PLAIN = SLIDING.format("")
QUERIES = {  # what is open with nothing promised, with t >= 16, with t >= 40
    "panes": (PLAIN, 7, 4, 0),
    "amended": (f"{PLAIN} LATE AMEND FOR 5", 6, 3, 0),
    "landmark": (SLIDING.replace("RANGE 10", "RANGE ALL").format(""), 6, 3, 0),
    "groups": ("SELECT t, count(*) AS n FROM s GROUP BY t", 4, 1, 0),
    "amended groups": ("SELECT t, count(*) AS n FROM s GROUP BY t LATE AMEND FOR 5", 4, 1, 0),
    "rows": ("SELECT count(*) AS n [RANGE 3 ROWS, SLIDE 3 ROWS] FROM s", 1, 1, 1),
    "partitions": (
        "SELECT k, count(*) AS n [RANGE 2 ROWS, SLIDE 2 ROWS, PA k] FROM s GROUP BY k",
        *(2, 2, 2),
    ),
    "distinct": ("SELECT DISTINCT k, t FROM s", 0, 0, 0),
}


def made(sql: str) -> tuple[Operator, str]:
    db = ps.connect("local")
    db.stream("s", [], schema="k STRING, t INT", progress=ps.progress("t", delay=5))
    query = db.sql(sql).plan
    node = next(each for each in in_process(query).root.walk() if each.stateful)
    return operator_for(node, ManualClock(0)), "s.t"


def told(operator: Operator, progress: Progress) -> None:
    operator.on_progress(0, progress)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("restarts", [False, True])
def test_open_results(name: str, restarts: bool) -> None:
    sql, *expected = QUERIES[name]
    operator, column = made(sql)
    k, t = zip(*ROWS, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(k), pa.array(t, pa.int32())], names=["s.k", column]
    )
    operator.on_batch(0, Batch(batch))
    store = MemoryStore()
    found = [operator.open_results().count]
    for bound in (16, 40):
        told(operator, Progress({column: bound}, {column: 27}))
        if restarts:
            operator.save(store)
            operator, _ = made(sql)
            operator.load(store)
        found.append(operator.open_results().count)
    assert found == expected
    told(operator, Progress({}, {column: 27}, ended=True))
    assert operator.open_results() == OpenResults()


def test_panes_that_are_kept_are_not_open() -> None:
    """A pane stays until it has left the window that was computed last."""
    operator, column = made(PLAIN.replace("SLIDE 5", "SLIDE 10"))
    columns = [pa.array(["a", "a", "a"]), pa.array([1, 12, 31], pa.int32())]
    operator.on_batch(0, Batch(pa.RecordBatch.from_arrays(columns, names=["s.k", column])))
    told(operator, Progress({column: 26}, {column: 31}))
    assert operator.open_results() == OpenResults(((3, 4),))


@pytest.mark.parametrize("algorithm", [*Algorithm])
def test_algorithms(algorithm: Algorithm) -> None:
    """Some take windows without tuples between others for open."""
    k, t = zip(*ROWS, strict=True)
    columns = [pa.array(k), pa.array(t, pa.int32())]
    operator, column = made(f"SELECT /*+ {algorithm.name} */ {PLAIN.removeprefix('SELECT ')}")
    operator.on_batch(0, Batch(pa.RecordBatch.from_arrays(columns, names=["s.k", column])))
    told(operator, Progress({column: 16}, {column: 27}))
    (first, _), *_, (_, stop) = 2 * operator.open_results().spans
    assert (first, stop) == (3, 7)
    told(operator, Progress({column: 40}, {column: 27}))
    assert operator.open_results() == OpenResults()
