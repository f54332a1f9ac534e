"""Buckets that go on with another algorithm, from micro-batch to micro-batch."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.errors import CheckpointError
from penstock.io.sources.source import Chunk
from penstock.kernel.state import MemoryStore
from penstock.plan.algorithms import Algorithm
from penstock.plan.final_bounds import closing_reach
from tests.reference.helpers import bag, tuples
from tests.spark.without_spark import Given, WithoutSpark, rows_of

ROWS = [("abc"[n * n % 3], n % 5, n - n * 7 % 11) for n in range(60)]


def asked(algorithm: Algorithm, range_: int = 10, slide: int = 4) -> ps.Query:
    db = ps.connect("reference")
    db.stream("s", ROWS, schema="k STRING, v INT, t INT", progress=ps.progress("t", delay=2))
    window = f"[RANGE {range_}, SLIDE {slide}, WA t]"
    calls = "count(*) AS n, median(v) AS m, last(v) AS l"
    found = db.sql(f"SELECT /*+ {algorithm.name} */ k, {calls} {window} FROM s GROUP BY k")
    assert isinstance(found, ps.Query)
    return found


def names(stores: dict[tuple[int, int], MemoryStore]) -> set[str]:
    """What the chunks of operators are called, without their numbers."""
    found = [name.split("/") for store in stores.values() for name in store.names()]
    return {parts[1] for parts in found if parts[0] == "operator"}


@pytest.mark.parametrize("step", range(1, 5))
@pytest.mark.parametrize(("range_", "slide"), [(10, 10), (10, 4), (3, 7)])
def test_from_one_to_the_next(range_: int, slide: int, step: int) -> None:
    stores: dict[tuple[int, int], MemoryStore] = {}
    rows: list[object] = []
    late = 0
    reference = asked(Algorithm.PANED, range_, slide)
    expected = bag(tuples(reference.collect()))
    (batch,) = rows_of(reference.plan).values()
    for number in range(11):
        query = asked([*Algorithm][number * step % 5], range_, slide)
        job = WithoutSpark(query.plan, 3)
        job._stores = stores
        if number < 10:
            job.run({"s": [Given([Chunk(batch.slice(number * 6, 6))])]})
        else:
            promise = max(t for _, _, t in ROWS) + (closing_reach(query.plan) or 0)
            job.run({"s": [Given([], promise=promise)]})
        rows += tuples(job.received.table(query.plan))
        late += job.tally.late
    assert bag(rows) == expected
    assert late == reference.account.late


def test_only_the_chunks_of_the_new_one_are_left() -> None:
    stores: dict[tuple[int, int], MemoryStore] = {}
    (batch,) = rows_of(asked(Algorithm.PANED).plan).values()
    found = []
    for number, algorithm in enumerate((Algorithm.BUFFERING, Algorithm.PANED, Algorithm.WID)):
        job = WithoutSpark(asked(algorithm).plan, 3)
        job._stores = stores
        job.run({"s": [Given([Chunk(batch.slice(number * 6, 6))])]})
        found.append(names(stores))
    assert [sorted(each & {"rows", "panes"}) for each in found] == [["rows"], ["panes"], ["panes"]]


def test_state_that_does_not_say_what_it_is_of() -> None:
    """That of an earlier version."""
    (batch,) = rows_of(asked(Algorithm.PANED).plan).values()
    job = WithoutSpark(asked(Algorithm.PANED).plan, 1)
    job.run({"s": [Given([Chunk(batch.slice(0, 6))])]})
    (store,) = job._stores.values()
    found = store.get("identity")
    assert found is not None
    del found["operator"]
    store.put("identity", found)
    job.restart()
    job.run({"s": [Given([Chunk(batch.slice(6, 6))])]})
    other = WithoutSpark(asked(Algorithm.WID).plan, 1)
    other._stores = job._stores
    with pytest.raises(CheckpointError, match="another algorithm"):
        other.run({"s": [Given([Chunk(batch.slice(12, 6))])]})
