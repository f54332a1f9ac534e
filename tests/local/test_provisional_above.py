"""Projections and conditions above an aggregate that fail on a result which is not final yet: such
a row is not given out, and is an error only if it is one when it is final."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.kernel.state import MemoryStore
from tests.local.helpers import locally, recut
from tests.local.resumed import Part
from tests.local.test_only_what_counts import found_or_error
from tests.local.test_provisional import FOREVER, LATE, Running, assert_remembered
from tests.local.test_revisions import seen
from tests.reference.helpers import Row, Stream, ask, database
from tests.spark.test_every_cut import cuts, run_in_cuts
from tests.spark.without_spark import MicroBatch, WithoutSpark

SCHEMA = "k STRING, x BIGINT, t INT"
MOST = 2**31 - 1
FEW = st.sampled_from([MOST, -MOST, 1, -1, None])
ROWS = st.lists(st.tuples(st.sampled_from("ab"), FEW, st.integers(0, 12)), min_size=1, max_size=14)
WINDOW = "[RANGE 6, SLIDE 3, WA t]"
INNER = f"SELECT k, sum(x) AS z {WINDOW} FROM s GROUP BY k"
SELECTS = (
    f"SELECT k, CAST(sum(x) AS INT) AS z {WINDOW} FROM s GROUP BY k",
    "SELECT CAST(sum(x) AS INT) AS z [RANGE 4, SLIDE 4, WA t] FROM s",
    f"SELECT k, count(*) AS n {WINDOW} FROM s GROUP BY k HAVING CAST(sum(x) AS INT) > 0",
    "SELECT count(*) AS n [RANGE 4, SLIDE 4, WA t] FROM s HAVING CAST(sum(x) AS INT) > 0",
    "SELECT k, CAST(sum(x) AS INT) AS z [RANGE ALL, SLIDE 4, WA t] FROM s GROUP BY k",
    # the windows in a row that hold the same tuples need not fail together
    "SELECT CAST(z * (window_end - 4) DIV 4 AS INT) AS z FROM"
    " (SELECT sum(x) AS z [RANGE ALL, SLIDE 4, WA t] FROM s)",
    "SELECT t, k, CAST(sum(x) AS INT) AS z FROM s GROUP BY t, k",
    "SELECT t, count(*) AS n FROM s GROUP BY t HAVING CAST(sum(x) AS INT) > 0",
    f"SELECT k, z FROM ({INNER}) WHERE CAST(z AS INT) > 0",
    f"SELECT k, CAST(z AS INT) AS z FROM ({INNER} HAVING count(*) > 1) WHERE z <> 5",
    f"SELECT k, CAST(z AS INT) + 1 AS y FROM ({INNER}"
    " UNION ALL SELECT k, sum(x) AS z [RANGE 4, SLIDE 4, WA t] FROM s GROUP BY k)",
    # what others build on is final
    "SELECT sum(z) AS z [RANGE 6, SLIDE 6, WA window_start] FROM"
    f" (SELECT k, CAST(sum(x) AS INT) AS z {WINDOW} FROM s GROUP BY k)",
    "SELECT CAST(sum(z) AS INT) AS y [RANGE 6, SLIDE 6, WA window_start] FROM"
    f" (SELECT k, sum(x) AS z {WINDOW} FROM s GROUP BY k)",
)


def alike(found: Any, expected: Any) -> bool:
    """The same rows, or an error on both sides."""
    return bool(found == expected) or (isinstance(found, str) and isinstance(expected, str))


@settings(deadline=None, max_examples=200)
@given(
    rows=ROWS,
    select=st.sampled_from(SELECTS),
    late=st.sampled_from([*LATE, FOREVER]),
    delay=st.sampled_from([0, 3, 100]),
    cut=st.sampled_from([1, 7, None]),
)
def test_one_end_in_process(
    rows: list[Row], select: str, late: str, delay: int, cut: int | None
) -> None:
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=delay))
    expected = found_or_error(lambda: ask(select + late, s=stream).collect())
    found = found_or_error(lambda: locally(select + late, cut, Running(), s=stream).table)
    assert alike(found, expected)


class Hurrying(WithoutSpark):
    """Early answers are due in every micro-batch."""

    def run(self, given: MicroBatch) -> None:
        self.now += 1_000_000
        super().run(given)


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(),
    rows=ROWS,
    select=st.sampled_from([each for each in SELECTS if "UNION" not in each]),
    late=st.sampled_from([*LATE, FOREVER]),
    restarts=st.sets(st.integers(1, 4)),
)
def test_one_end_on_spark(
    data: st.DataObject, rows: list[Row], select: str, late: str, restarts: set[int]
) -> None:
    query = ask(select + late, s=Stream(SCHEMA, rows, ps.progress("t", delay=2)))
    expected = found_or_error(query.collect)
    job = Hurrying(query.plan, 2)
    planned = {"s": data.draw(cuts(len(rows)))}

    def on_spark() -> Any:
        run_in_cuts(job, query, planned, 2, restarts)
        return job.received.table(query.plan)

    assert alike(found_or_error(on_spark), expected)


TOO_LARGE = [("a", MOST, 1), ("a", 1, 12), ("a", 5, 2)]
DOWN_AGAIN = [*TOO_LARGE, ("a", -7, 3)]
PAIR = (
    SELECTS[1],
    "SELECT sum(x) AS z [RANGE 4, SLIDE 4, WA t] FROM s HAVING CAST(sum(x) AS INT) > 0",
)


@pytest.mark.parametrize("select", PAIR)
def test_what_was_given_is_taken_back_and_comes_again(select: str) -> None:
    rows = seen(f"{select} LATE AMEND", s=Stream(SCHEMA, DOWN_AGAIN, ps.progress("t", delay=0)))
    assert [(row["z"], row["_sign"]) for row in rows if row["window_start"] == 0] == [
        (MOST, 1),
        (MOST, -1),
        (MOST - 2, 1),
    ]


@pytest.mark.parametrize("select", PAIR)
def test_what_was_not_given_early_is_not_taken_back(select: str) -> None:
    rows = [("a", MOST, 1), ("a", 5, 2), ("a", 1, 2), ("a", -7, 3)]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=100))
    found = seen(f"{select} EMIT EARLY EVERY 1 SECOND", Running(), s=stream)
    assert [(row["z"], row["_sign"]) for row in found] == [(MOST, 1), (MOST, -1), (MOST - 1, 1)]


def test_only_the_row_that_fails_waits() -> None:
    rows = [("a", MOST, 1), ("b", 4, 1), ("c", 2, 2), ("a", 1, 2), ("d", 1, 7)]
    select = f"{SELECTS[0].replace(WINDOW, '[RANGE 4, SLIDE 4, WA t]')} LATE AMEND FOR 5"

    def said(last: Row) -> list[Any]:
        stream = Stream(SCHEMA, [*rows, last], ps.progress("t", delay=0))
        return [(row["k"], row["z"], row["_sign"]) for row in seen(select, s=stream)]

    others = [("b", 4, 1), ("c", 2, 1)]
    assert said(("a", -2, 3)) == [*others, ("a", MOST - 1, 1), ("d", 1, 1)]
    with pytest.raises(RunError, match=f"{MOST + 1} cannot be made an INT"):
        said(("d", 1, 12))


def test_what_was_held_back_comes_if_the_columns_are_others_by_then() -> None:
    rows = [(k, x, t // 4 * 4) for k, x, t in TOO_LARGE]
    stream = Stream(SCHEMA, rows, ps.progress("t", delay=0))
    for select in (SELECTS[1], SELECTS[6]):
        store, plans = MemoryStore(), []
        for each in (select, select.replace("CAST(sum(x) AS INT)", "sum(x)")):
            db = database(s=stream)
            recut(db, 1)
            query = db.sql(f"{each} LATE AMEND")
            assert isinstance(query, ps.Query)
            plans.append(query.plan)
        assert Part(plans[0], store).go_on(3)
        last = Part(plans[1], store)
        assert not last.go_on(10)
        assert MOST + 5 in last.rows.table.column("z").to_pylist()


@pytest.mark.parametrize("select", [SELECTS[0], SELECTS[2], SELECTS[4], SELECTS[6]])
@pytest.mark.parametrize("restart", [1, 2, 3])
def test_it_is_remembered_what_fails(select: str, restart: int) -> None:
    assert_remembered(select, restart, TOO_LARGE, DOWN_AGAIN, "INT")
