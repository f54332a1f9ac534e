"""Row windows over the pairs of a join are refused: those have no order to be counted in."""

from __future__ import annotations

import pytest

import penstock as ps
from tests.reference.helpers import Stream, ask

STREAM = Stream("k INT, t INT", [(1, 1)], ps.progress("t", delay=1))


@pytest.mark.parametrize(
    "select",
    [
        "SELECT count(*) AS c [RANGE 5 ROWS, SLIDE 5 ROWS, WA row-num]",
        "SELECT count(*) AS c [RANGE 5 ROWS, SLIDE 5 ROWS, WA rank(l.t)]",
        "SELECT count(*) AS c [RANGE 5, RATTR l.t, SLIDE 2 ROWS, SATTR row-num]",
    ],
)
def test_pairs_are_not_counted(select: str) -> None:
    with pytest.raises(ps.PenstockError, match="the pairs of a join come as soon as"):
        ask(f"{select} FROM l [RANGE 1], r [RANGE 1]", l=STREAM, r=STREAM)


def test_a_window_that_slides_with_every_pair_counts_none() -> None:
    sql = "SELECT count(*) AS c [RANGE 5, RATTR l.t, SLIDE 1 ROW, SATTR row-num]"
    assert ask(f"{sql} FROM l [RANGE 1], r [RANGE 1]", l=STREAM, r=STREAM).collect().num_rows == 1


def test_items_of_pairs_are_not_counted() -> None:
    """Those of one time leave a difference in the order of its left tuples."""
    pairs = "(SELECT l.k AS k, l.t AS t FROM l [RANGE 1], r [RANGE 1]) p [RANGE 3, WA t]"
    sql = f"SELECT count(*) AS c [RANGE 5 ROWS, SLIDE 5 ROWS] FROM {pairs} EXCEPT ON (k) r"
    with pytest.raises(ps.PenstockError, match="the pairs of a join come as soon as"):
        ask(sql, l=STREAM, r=STREAM)
    sql = f"SELECT count(*) AS c [RANGE 5 ROWS, SLIDE 5 ROWS] FROM l EXCEPT ON (k) {pairs}"
    assert ask(sql, l=STREAM, r=STREAM).collect().num_rows == 1
