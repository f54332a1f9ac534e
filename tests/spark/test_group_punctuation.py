"""Punctuation for single groups in tasks and buckets: the reference's rows and late tuples however
the stream is cut, and results of a group ahead of the others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.sources.source import Chunk
from penstock.kernel.progress import group_bounds
from penstock.spark.tasks import ingest_tasks
from tests.kernel.progress.test_group_punctuation import CALLS, EARLY, SELECTS, STREAM, stream
from tests.reference.helpers import Stream, ask, bag, tuples
from tests.spark.test_every_cut import assert_reference, cuts, run_in_cuts
from tests.spark.without_spark import Given, WithoutSpark, rows_of


@settings(max_examples=150)
@given(
    data=st.data(),
    given_stream=STREAM,
    select=st.sampled_from(SELECTS),
    calls=st.sampled_from(list(CALLS.values())),
    buckets=st.integers(1, 3),
    at_once=st.sampled_from([1, 4, 100]),
    flush=st.sampled_from([1, 3, 1000]),
    many=st.sampled_from([0, 4096]),
    restarts=st.sets(st.integers(1, 7)),
)
def test_every_cut(
    data: st.DataObject,
    given_stream: Stream,
    select: str,
    calls: str,
    buckets: int,
    at_once: int,
    flush: int,
    many: int,
    restarts: set[int],
) -> None:
    query = ask(select.format(calls=calls), s=given_stream)
    planned = {"s": data.draw(cuts(len(given_stream.rows)), label="s")}
    job = WithoutSpark(query.plan, buckets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest_tasks, "MANY_ROWS", flush)
        patch.setattr(group_bounds, "_MANY_BOUNDS", many)
        run_in_cuts(job, query, planned, at_once, restarts)
    assert_reference(query, job)


WINDOWS = "SELECT k, sum(x) AS s [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY k"


@pytest.mark.parametrize("hint", ["paned", "wid", "two_level"])
def test_windows_of_a_group_close_before_those_of_the_stream(hint: str) -> None:
    sql = WINDOWS.replace("SELECT", f"SELECT /*+ {hint} */")
    query = ask(sql, s=stream(EARLY, {"delay": 60}, ["k"]))
    job = WithoutSpark(query.plan, 2)
    batch, found = rows_of(query.plan)["s"], []
    for number in range(batch.num_rows):
        job.run({"s": [Given([Chunk(batch.slice(number, 1))])]})
        rows = [row for each in job.received.rows[number] for row in each.to_pylist()]
        found.append(sorted((row["k"], row["window_start"], row["s"]) for row in rows))
    assert [rows for rows in found if rows] == [
        [("a", 0, 1), ("a", 5, 4)],
        [("a", 10, 16), ("b", 0, 2), ("b", 5, 8)],
        [("b", 105, 32)],
    ]


def test_a_tuple_is_measured_by_what_its_group_was_promised_in_an_earlier_micro_batch() -> None:
    """The 4 of a is late for [0, 5); that of b is not, and neither is the one that another task
    reads beside the punctuation."""
    rows = [
        ("p", "a", 1, 0, 5),
        ("d", "a", 1, 1, 4),
        ("d", "b", 1, 2, 4),
        ("p", "b", 1, 0, 5),
        ("d", "b", 1, 4, 4),
    ]
    query = ask(f"{WINDOWS} LATE SIDE", s=stream(rows, {}, ["k"]))
    job = WithoutSpark(query.plan, 2)
    batch = rows_of(query.plan)["s"]
    job.run({"s": [Given([Chunk(batch.slice(0, 1))])]})
    job.run({"s": [Given([Chunk(batch.slice(1, 3))]), Given([Chunk(batch.slice(4, 1))])]})
    job.run({"s": [Given([], ends=True)]})
    assert [(row[1], row[3]) for row in tuples(job.received.late_table())] == [("a", 1)]
    assert bag(row[-2:] for row in tuples(job.received.table(query.plan))) == bag([("b", 6)])


def test_groups_that_the_stream_has_passed_are_forgotten() -> None:
    """What a bucket keeps follows the groups that are ahead of the stream, not all that were."""
    rows = []
    for number in range(40):
        rows += [("p", f"g{number}-{n}", 1, 0, 10 * number + 5) for n in range(20)]
        rows += [("d", "a", 1, 1, 10 * number)]
    query = ask(WINDOWS, s=stream(rows, {"delay": 10}, ["k"]))
    job = WithoutSpark(query.plan, 2)
    batch = rows_of(query.plan)["s"]
    sizes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_bounds, "_MANY_BOUNDS", 16)
        for number in range(40):
            job.run({"s": [Given([Chunk(batch.slice(21 * number, 21))])]})
            sizes.append(sum(len(store.packed) for store in job._stores.values()))
            kept = [bucket.registers[0].groups for bucket in job._buckets.values()]
            assert all(len(each._highest) < 200 for each in kept if each is not None)
    job.run({"s": [Given([], ends=True)]})
    assert_reference(query, job)
    assert max(sizes[20:]) <= max(sizes[:20])


def test_a_group_that_is_in_one_bucket_is_promised_something_there_alone() -> None:
    sent = {}
    for sql in (WINDOWS, "SELECT g, sum(x) AS s [RANGE 5, SLIDE 5, WA t] FROM s GROUP BY g"):
        query = ask(sql, s=stream(EARLY, {"delay": 60}, ["k"]))
        job = WithoutSpark(query.plan, 3)
        job.run({"s": [Given([Chunk(rows_of(query.plan)["s"])])]})
        registers = [bucket.registers[0].groups for bucket in job._buckets.values()]
        sent[sql] = [each._highest.highest > group_bounds.NONE for each in registers]
    by_group, by_other = sent.values()
    assert by_group.count(True) < 3
    assert all(by_other)
