"""Results that have no value until another tuple comes: an error only if they are final."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.kernel.state import MemoryStore
from penstock.model.clock import Clock
from penstock.runs.collected_answer import final_rows
from tests.local.helpers import locally, recut
from tests.local.resumed import run_in_parts
from tests.local.test_only_what_counts import found_or_error
from tests.local.test_revisions import seen
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import WithoutSpark

SCHEMA = "k STRING, x BIGINT, t INT"
MOST = 2**63 - 1
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from([MOST, -MOST, 1, -1, None]), st.integers(0, 12)
    ),
    min_size=1,
    max_size=14,
)
SELECTS = (
    "SELECT k, sum(x) AS z, count(*) AS n [RANGE 6, SLIDE 3, WA t] FROM s GROUP BY k",
    "SELECT sum(x) AS z [RANGE 4, SLIDE 4, WA t] FROM s",
    "SELECT k, sum(x) AS z [RANGE ALL, SLIDE 4, WA t] FROM s GROUP BY k",
    "SELECT t, k, sum(x) AS z FROM s GROUP BY t, k",
)
LATE = (" LATE AMEND", " LATE AMEND FOR 5", " EMIT EARLY EVERY 1 SECOND")
FOREVER = " LATE AMEND FOR 100 EMIT EARLY EVERY 1 SECOND"


class Running(Clock):
    """Whoever looks at it finds that a second has passed."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        self.at += 1_000_000
        return self.at


@settings(deadline=None, max_examples=150)
@given(
    rows=ROWS,
    select=st.sampled_from(SELECTS),
    late=st.sampled_from([*LATE, FOREVER]),
    delay=st.sampled_from([0, 3, 100]),
    cut=st.sampled_from([1, 3, None]),
)
def test_one_end_in_process(
    rows: list[Row], select: str, late: str, delay: int, cut: int | None
) -> None:
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=delay))
    expected = found_or_error(lambda: ask(select + late, s=stream).collect())
    found = found_or_error(lambda: locally(select + late, cut, Running(), s=stream).table)
    assert (found == expected) or (isinstance(found, str) and isinstance(expected, str))


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    rows=ROWS,
    select=st.sampled_from(SELECTS),
    late=st.sampled_from([" LATE AMEND", " LATE AMEND FOR 5"]),
    restarts=st.sets(st.integers(1, 4)),
)
def test_one_end_on_spark(
    data: st.DataObject, rows: list[Row], select: str, late: str, restarts: set[int]
) -> None:
    query = ask(select + late, s=Stream(SCHEMA, rows, ps.progress("t", delay=2)))
    expected = found_or_error(query.collect)
    job = WithoutSpark(query.plan, 2)
    planned = {"s": data.draw(cuts(len(rows)))}

    def on_spark() -> Any:
        run_in_cuts(job, query, planned, 2, restarts)
        return job.received.table(query.plan)

    found = found_or_error(on_spark)
    assert (found == expected) or (isinstance(found, str) and isinstance(expected, str))


TOO_LARGE = [("a", MOST, 1), ("a", 1, 12), ("a", 5, 2)]
DOWN_AGAIN = [*TOO_LARGE, ("a", -7, 3)]


@pytest.mark.parametrize("select", SELECTS[1:2])
def test_what_was_given_is_taken_back_and_comes_again(select: str) -> None:
    rows = seen(f"{select} LATE AMEND", s=Stream(SCHEMA, DOWN_AGAIN, ps.progress("t", delay=0)))
    assert [(row["z"], row["_sign"]) for row in rows if row["window_start"] == 0] == [
        (MOST, 1),
        (MOST, -1),
        (MOST - 2, 1),
    ]


@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("restart", [1, 2, 3])
def test_it_is_remembered_what_has_no_value(select: str, restart: int) -> None:
    assert_remembered(select, restart, TOO_LARGE, DOWN_AGAIN, "too large")


def assert_remembered(
    select: str, restart: int, failing: list[Row], mended: list[Row], message: str
) -> None:
    """After a restart, what fails in the end is an error, and what is mended is not."""
    for rows in (failing, mended):
        stream = Stream(SCHEMA, [(k, x, t // 4 * 4) for k, x, t in rows], ps.progress("t", delay=0))
        db = database(s=stream)
        recut(db, 1)
        query = db.sql(f"{select} LATE AMEND")
        assert isinstance(query, ps.Query)
        plan, store = query.plan, MemoryStore()
        if rows is failing:
            with pytest.raises(RunError, match=message):
                run_in_parts(plan, restart, lambda store=store: store)
        else:
            rows_ = run_in_parts(plan, restart, lambda store=store: store).rows
            found = final_rows(rows_, "_sign")
            expected = ask(f"{select} LATE AMEND", s=stream).collect()
            assert bag(tuples(found)) == bag(tuples(expected))
