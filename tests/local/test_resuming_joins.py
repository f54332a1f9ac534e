"""Checkpoints of joins: names may change, and what tuples are joined by may not."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.kernel.state import MemoryStore
from penstock.plan.nodes.join import JoinKind
from penstock.plan.nodes.query import QueryPlan
from tests.local.joining import planned
from tests.local.resumed import Part
from tests.reference.helpers import Stream, bag, tuples

ROWS = [("a", n % 3, t) for n, t in enumerate([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])]
SOURCE = "l [RANGE 5, WA t], r [RANGE 2, WA t] WHERE l.n = r.n"
THREE = "l [RANGE 5, WA t], r [RANGE 2, WA t], u [RANGE 4, WA t] WHERE l.n = u.n AND u.k = r.k"


def query(source: str, kind: JoinKind = JoinKind.INNER, select: str = "l.n, l.t, r.t") -> QueryPlan:
    stream = Stream("k STRING, n INT, t INT", ROWS, ps.progress("t", delay=4))
    names = {"l": stream, "r": stream._replace(rows=ROWS[::-1]), "u": stream}
    return planned(f"SELECT {select} FROM {source}", kind, 2, **names)


def finished(first: QueryPlan, second: QueryPlan) -> list[tuple[object, ...]]:
    """The rows of two runs, the second of which goes on where the first one was left."""
    store, rows = MemoryStore(), []
    part = Part(first, store)
    assert part.go_on(7)
    rows += tuples(part.rows.table)
    part = Part(second, store)
    assert not part.go_on(1000)
    return bag(rows + tuples(part.rows.table))


@pytest.mark.parametrize(
    ("source", "again"),
    [
        (
            SOURCE,
            "l AS x [RANGE 5, WA t], r AS y [RANGE 2, WA t] WHERE x.n = y.n",
        ),
        (
            THREE,
            "l AS x [RANGE 5, WA t], r AS y [RANGE 2, WA t], u AS z [RANGE 4, WA t]"
            " WHERE x.n = z.n AND z.k = y.k",
        ),
    ],
)
def test_names_may_change(source: str, again: str) -> None:
    kinds = [JoinKind.INNER] if source == THREE else [JoinKind.INNER, JoinKind.FULL]
    for kind in kinds:
        same = query(source, kind)
        renamed = query(again, kind, "x.n, x.t, y.t")
        assert finished(same, renamed) == finished(same, same)


@pytest.mark.parametrize(
    "other",
    [
        (SOURCE.replace("RANGE 5", "RANGE 6"), JoinKind.INNER),
        (SOURCE.replace("l.n = r.n", "l.k = r.k"), JoinKind.INNER),
        (SOURCE, JoinKind.LEFT),
        (THREE, JoinKind.INNER),
    ],
)
def test_what_is_joined_may_not(other: tuple[str, JoinKind]) -> None:
    with pytest.raises(ps.CheckpointError):
        finished(query(SOURCE), query(*other))


def test_other_columns_may_come_out() -> None:
    store = MemoryStore()
    part = Part(query(SOURCE), store)
    assert part.go_on(7)
    part = Part(query(SOURCE, select="r.k, l.k"), store)
    assert not part.go_on(1000)
    assert part.rows.table.schema.names == ["r.k", "l.k"]
    assert part.rows.table.num_rows
