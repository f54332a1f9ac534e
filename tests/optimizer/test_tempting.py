"""What looks as if it could be moved, merged or left out, and must not be."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.errors import PenstockError
from penstock.local.scheduling.scheduler import answer
from penstock.model.clock import ManualClock
from penstock.optimizer.optimize import physical_plan
from penstock.optimizer.rewrite import Settings
from penstock.plan.nodes.aggregation import Distinct, GroupAggregate, WindowAggregate
from penstock.plan.nodes.join import Difference, Join, Sequence
from penstock.plan.nodes.node import Filter, Node, Project, Scan
from penstock.plan.nodes.query import QueryPlan
from tests.planning import in_process
from tests.reference.helpers import Stream, ask, bag, tuples

S = Stream(
    "k INT, x INT, t BIGINT",
    [(1, 5, 3), (2, 9, 20), (2, 1, 2), (1, 4, 21), (1, 1, 40)],
    ps.progress("t", delay=5),
)
R = Stream("k INT, y INT, t BIGINT", [(1, 7, 4), (2, 8, 19), (1, 0, 30)], ps.progress("t", delay=5))
COUNTS = "SELECT k, window_end AS e, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"


def simplified(sql: str) -> list[Node]:
    """The nodes that run, from the top; after the answer was compared with the definition's."""
    query = ask(sql, s=S, r=R)
    plan = in_process(query.plan)
    found = answer(plan, ManualClock())
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert bag(tuples(found.late)) == bag(tuples(query.late))
    assert found.account == query.account
    return list(plan.root.logical.walk())


def kinds(sql: str) -> list[type]:
    return [type(node) for node in simplified(sql)]


# --- lateness ------------------------------------------------------------------------------------


def test_not_below_windows_that_tuples_are_late_for() -> None:
    """The late tuple has k = 2, and counts as late whatever becomes of its group."""
    sql = f"SELECT n FROM ({COUNTS}) q WHERE k = 1 LATE SIDE"
    assert kinds(sql)[-3:] == [Filter, WindowAggregate, Scan]
    assert ask(sql, s=S, r=R).account.late == 1


def test_not_below_a_join_that_tuples_are_late_for() -> None:
    pairs = "SELECT s.k AS k, x, y FROM s [RANGE 5], r [RANGE 5] WHERE s.k = r.k"
    nodes = simplified(f"SELECT x FROM ({pairs}) q WHERE x > 4 LATE SIDE")
    (join,) = [node for node in nodes if isinstance(node, Join)]
    assert "(s.x > 4)" in str(join.condition)
    assert all(isinstance(branch, Scan) for branch in join.branches)


def test_below_windows_over_results() -> None:
    top = f"SELECT k, max(n) AS m [RANGE 20, SLIDE 20, WA e] FROM ({COUNTS}) q GROUP BY k"
    found = kinds(f"SELECT m FROM ({top}) p WHERE k = 1 LATE SIDE")
    assert found[-4:] == [WindowAggregate, Filter, WindowAggregate, Scan]


def test_late_tuples_keep_the_columns_of_a_sub_query() -> None:
    named = "SELECT k AS key, t AS at FROM s"
    found = kinds(f"SELECT count(*) AS n [RANGE 10, SLIDE 10, WA at] FROM ({named}) q LATE SIDE")
    assert found[-3:] == [WindowAggregate, Project, Scan]


# --- what goes on, counts, or is first -----------------------------------------------------------


def test_not_below_what_landmark_windows_go_by() -> None:
    """They go on to where results have come, also to those of groups that are dropped."""
    top = f"SELECT k, e, max(n) AS m FROM ({COUNTS}) q GROUP BY k, e"
    sql = f"SELECT count(*) AS c [RANGE ALL, SLIDE 10, WA e] FROM ({top}) p WHERE k = 1"
    found = kinds(sql)
    assert found.index(Filter) < found.index(GroupAggregate)


def test_not_below_row_windows_of_all() -> None:
    sql = "SELECT k, count(*) AS n [RANGE 2 ROWS, SLIDE 1 ROW] FROM s GROUP BY k HAVING k = 1"
    assert kinds(sql)[1:3] == [Filter, WindowAggregate]


def test_below_row_windows_of_partitions() -> None:
    sql = "SELECT k, count(*) AS n [RANGE 2 ROWS, SLIDE 1 ROW, PA k] FROM s GROUP BY k HAVING k = 1"
    assert kinds(sql) == [Project, WindowAggregate, Filter, Scan]


def test_not_below_distinct_on_if_it_is_about_the_row_that_is_chosen() -> None:
    first = f"SELECT DISTINCT ON (k) k, n, e [RANGE 20, SLIDE 20, WA e] FROM ({COUNTS}) q"
    nodes = simplified(f"SELECT k FROM ({first}) p WHERE n > 1")
    assert any(isinstance(node, Filter) and "n > 1" in str(node.predicate) for node in nodes[:3])


def test_not_below_a_sequence() -> None:
    pairs = "SELECT s.k AS k, x, y FROM SEQUENCE(s THEN r MODE RECENT ON s.k = r.k)"
    found = kinds(f"SELECT y FROM ({pairs}) q WHERE x > 4")
    assert found.index(Filter) < found.index(Sequence)


def test_not_below_a_difference() -> None:
    items = "SELECT k, x, changed_at FROM s [RANGE 9, WA t] EXCEPT ON (k) r [RANGE 3, WA t]"
    found = kinds(f"SELECT k FROM ({items}) q WHERE changed_at > 5 AND x > 1")
    assert found.index(Filter) < found.index(Difference)


def test_not_into_an_outer_join() -> None:
    pairs = "SELECT s.k AS k, y FROM s [RANGE 5] LEFT JOIN r [RANGE 5] ON s.k = r.k"
    nodes = simplified(f"SELECT k FROM ({pairs}) q WHERE y IS NULL")
    (join,) = [node for node in nodes if isinstance(node, Join)]
    assert str(join.condition) == "(s.k = r.k)"


def test_nothing_below_results_that_are_revised() -> None:
    top = f"SELECT k, max(n) AS m [RANGE 20, SLIDE 20, WA e] FROM ({COUNTS}) q GROUP BY k"
    found = kinds(f"SELECT m FROM ({top}) p WHERE k = 1 LATE AMEND")
    assert found.index(Filter) < found.index(WindowAggregate)


# --- DISTINCT ------------------------------------------------------------------------------------


def test_two_tuples_of_one_time_open_a_window_each() -> None:
    again = Stream(S.schema, [(1, 5, 3), (1, 5, 3)], S.progress)
    sql = "SELECT DISTINCT window_end, count(*) AS n [RANGE 5, RATTR t, SLIDE 1 ROW] FROM s"
    query = ask(sql, s=again)
    plan = in_process(query.plan)
    assert isinstance(plan.root.logical, Distinct)
    assert answer(plan, ManualClock()).table.num_rows == query.collect().num_rows == 1


def test_groups_that_do_not_say_which_they_are() -> None:
    sql = "SELECT DISTINCT window_end, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k"
    assert kinds(sql)[0] is Distinct


def test_groups_that_do() -> None:
    sql = "SELECT DISTINCT k, window_start, n FROM (SELECT k, window_start, count(*) AS n"
    sql += " [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k) q"
    assert Distinct not in kinds(sql)


# --- errors --------------------------------------------------------------------------------------

FAILING = (
    # the projection fails for a tuple that the filter drops
    "SELECT y FROM (SELECT k, CAST(1 / (x - 5) AS INT) + 2147483647 AS y FROM s) q WHERE k = 9",
    # the second filter is computed only for what passes the first
    "SELECT x FROM (SELECT k, x FROM s WHERE x < 9) q WHERE CAST(x * 1000000000 AS INT) > 0",
    # what is asked of rows beyond the number, too
    "SELECT x FROM (SELECT x, row_number() OVER (PARTITION BY t ORDER BY x) AS n FROM s) q"
    " WHERE n < 1 AND CAST(x * 1000000000 AS INT) > 0",
    # a constant that has no value
    "SELECT x + CAST(upper('one') AS INT) AS y FROM s WHERE x > 100",
    "SELECT x + CAST(upper('one') AS INT) AS y FROM s",
    # sums of groups that are dropped afterwards
    "SELECT m FROM (SELECT k, e, sum(n * 9000000000000000000) AS m FROM"
    f" ({COUNTS}) p GROUP BY k, e) q WHERE k = 9",
)


def outcome(plan: object) -> object:
    try:
        return bag(tuples(answer(plan, ManualClock()).table))  # type: ignore[arg-type]
    except PenstockError as error:
        return type(error)


@pytest.mark.parametrize("sql", FAILING)
def test_errors_come_with_the_tuples_that_they_came_with(sql: str) -> None:
    query = ask(sql, s=S, r=R)
    plain = outcome(physical_plan(query.plan, Settings(), simplified=()))
    assert outcome(in_process(query.plan)) == plain


def test_both_kinds_of_errors_are_there() -> None:
    """Of the queries above, some fail and some do not."""
    found = [outcome(in_process(ask(sql, s=S, r=R).plan)) for sql in FAILING]
    assert len([each for each in found if isinstance(each, type)]) in range(2, len(FAILING))


# --- progress ------------------------------------------------------------------------------------


def test_constants_do_not_make_columns_progress() -> None:
    """`t + (1 + 1)` was bound as a column that does not progress; who waits for what goes by it."""
    plan: QueryPlan = ask("SELECT t + (1 + 1) AS u, t FROM s", s=S).plan
    made = in_process(plan).root.logical
    assert [each.field.name for each in made.progress] == [
        each.field.name for each in plan.input.progress
    ]
