"""What operators hold, and what goes through them: for every operator, in either host."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.sources.source import Chunk
from penstock.kernel.batch import Batch
from penstock.kernel.build import operator_for
from penstock.kernel.operator import (
    Item,
    LateRows,
    Measured,
    Metrics,
    OperatorStatus,
    Progress,
    Traffic,
)
from penstock.kernel.stateless import FilterOperator
from penstock.model.clock import ManualClock
from penstock.plan.nodes.node import Filter
from tests.planning import in_process
from tests.spark.without_spark import Given, WithoutSpark, rows_of

WINDOW = "[RANGE 10, SLIDE 5, WA t]"
SELECTS = {
    "paned": f"SELECT k, sum(x) AS s {WINDOW} FROM s GROUP BY k",
    "wid": f"SELECT /*+ WID */ k, sum(x) AS s {WINDOW} FROM s GROUP BY k",
    "adaptive": f"SELECT /*+ ADAPTIVE */ k, sum(x) AS s {WINDOW} FROM s GROUP BY k",
    "two levels": f"SELECT /*+ TWO_LEVEL */ k, sum(x) AS s {WINDOW} FROM s GROUP BY k",
    "buffering": f"SELECT /*+ BUFFERING */ k, sum(x) AS s {WINDOW} FROM s GROUP BY k",
    "landmark": "SELECT k, sum(x) AS s [RANGE ALL, SLIDE 5, WA t] FROM s GROUP BY k",
    "rows": "SELECT sum(x) AS s [RANGE 3 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s",
    "by tuple": "SELECT sum(x) AS s [RANGE 5, RATTR t, SLIDE 1 ROW, SATTR row-num] FROM s",
    "groups": "SELECT t, sum(x) AS s FROM s GROUP BY t",
    "distinct": "SELECT DISTINCT k, t FROM s",
    "revised": f"SELECT k, sum(x) AS s {WINDOW} FROM s GROUP BY k LATE AMEND",
    "revised landmark": "SELECT sum(x) AS s [RANGE ALL, SLIDE 5, WA t] FROM s LATE AMEND",
    "revised groups": "SELECT t, sum(x) AS s FROM s GROUP BY t LATE AMEND",
    "deferred": "SELECT sum(x) AS s [RANGE 3 ROWS, SLIDE 3 ROWS, WA rank(t)] FROM s LATE AMEND",
    "order": "SELECT k, t FROM s EMIT IN ORDER",
}
KEEPS_TUPLES = {"paned", "wid", "two levels", "buffering", "rows", "by tuple", "deferred", "order"}


def asked(select: str) -> ps.Query:
    db = ps.connect("local")
    rows = [(n % 3, n, n // 2) for n in range(40)]
    db.stream("s", rows, schema="k INT, x INT, t INT", progress=ps.progress("t", delay=5))
    query = db.sql(select)
    assert isinstance(query, ps.Query)
    return query


@pytest.mark.parametrize("name", SELECTS)
def test_what_operators_hold(name: str) -> None:
    query = asked(SELECTS[name])
    node = next(each for each in in_process(query.plan).root.walk() if each.stateful)
    operator = operator_for(node, ManualClock())
    assert operator.metrics().rows == 0
    assert operator.due() is None
    assert operator.on_time(10**15) == []
    columns = [field.qualified for field in node.logical.inputs[0].schema]
    arrays = {"k": [1, 2, 2], "x": [5, 6, 7], "t": [3, 4, 12]}
    given = [pa.array(arrays[each.rpartition(".")[2]], pa.int32()) for each in columns]
    operator.on_batch(0, Batch(pa.RecordBatch.from_arrays(given, names=columns)))
    held = operator.metrics()
    assert held.bytes > 0
    if name != "adaptive":  # which keeps those of sparse groups
        assert held.rows == (3 if name in KEEPS_TUPLES else 0)
    assert held.open == operator.open_results().count
    operator.on_progress(0, Progress(ended=True))
    assert operator.metrics().open == 0


def test_what_goes_through() -> None:
    query = asked(SELECTS["paned"])
    node = next(each for each in in_process(query.plan).root.walk() if each.stateful)
    times = iter(range(0, 100, 7))
    measured = Measured(operator_for(node, ManualClock()), "Paned", lambda: next(times))
    names = [field.qualified for field in node.logical.inputs[0].schema]
    columns = [pa.array(values, pa.int32()) for values in ([1, 1], [5, 6], [3, 13])]
    batch = Batch(pa.RecordBatch.from_arrays(columns, names=names))
    measured.on_batch(0, batch)
    measured.on_progress(0, Progress({names[2]: 15}, {names[2]: 13}))
    assert measured.flow == Traffic(rows_in=2, rows_out=3, late=0, calls=2, nanoseconds=14)


def test_what_is_made_when_it_is_taken_is_counted_then() -> None:
    class Pieces(FilterOperator):
        def on_batch(self, port: int, batch: Batch) -> Iterator[Item]:  # type: ignore[override]
            yield batch
            yield LateRows(batch.rows)

    times = iter(range(0, 1000, 7))
    node = next(each for each in asked("SELECT k FROM s WHERE x > 0").plan.walk() if each.inputs)
    filtering = next(each for each in node.walk() if isinstance(each, Filter))
    measured = Measured(Pieces(filtering), "Filter", lambda: next(times))
    items = iter(measured.on_batch(0, Batch(pa.record_batch({"k": [1, 2]}))))
    assert measured.flow == Traffic(rows_in=2, calls=1, nanoseconds=7)
    next(items)
    assert measured.flow == Traffic(rows_in=2, rows_out=2, calls=1, nanoseconds=14)
    assert len(list(items)) == 1
    assert measured.flow == Traffic(rows_in=2, rows_out=2, late=2, calls=1, nanoseconds=28)


def test_parts_of_an_operator_together() -> None:
    one = OperatorStatus("Paned", Traffic(1, 2, 3, 4, 5), Metrics(1, 10, 4))
    other = OperatorStatus("Paned", Traffic(10, 20, 30, 40, 50), Metrics(2, 20, 3))
    assert one.plus(other) == OperatorStatus(
        "Paned", Traffic(11, 22, 33, 44, 55), Metrics(3, 30, 4)
    )
    assert OperatorStatus.load(one.save()) == one


def test_in_process() -> None:
    started = asked(SELECTS["wid"]).start(lambda batch: None)
    started.wait()
    project, wid = started.progress().operators
    assert (project.name, wid.name) == ("Project", "Wid")
    assert wid.flow.rows_in == 40
    assert wid.flow.rows_out == project.flow.rows_in == project.flow.rows_out > 0


def test_on_spark() -> None:
    query = asked(SELECTS["revised"])
    job = WithoutSpark(query.plan, 2)
    for name, batch in rows_of(query.plan).items():
        job.run({name: [Given([Chunk(batch)])]})
    (status,) = job.tally.operators.values()
    assert (status.name, status.flow.rows_in) == ("RevisingSliding", 40)
    assert status.held.bytes > 0
