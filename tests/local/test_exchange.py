"""Operators that are exchanged while a query runs: the rows are those of the definition, whichever
stand for each other, and whenever one takes the place of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.local.interleaved as interleaved
from penstock.kernel.joins import pairing
from penstock.kernel.operator import Measured
from penstock.local.graph.operator_node import OperatorNode
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.optimizer.lowering import ALGORITHMS
from penstock.optimizer.replanning import as_tree, can_change_join, can_change_window
from penstock.plan.join_trees import Joined, JoinTree
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.join import JoinKind
from penstock.plan.physical import PhysicalNode
from penstock.reference.engine import answer as definition
from tests.kernel.joins.test_multiway_join import (
    PICKS,
    WHERE,
    planned_as,
    trees,
)
from tests.local.interleaved import plainly, run_interleaved
from tests.local.joining import (
    CUT,
    RESTART,
    SELECT_OF_THREE,
    SHORT,
    THREE,
    all_columns,
    planned,
)
from tests.promises_kept import Kept
from tests.reference.helpers import Stream, bag, tuples


class Exchanging:
    """Puts the next of some others in the place of an operator, every so many chunks; and holds
    what a node promises against what it gives, whoever does it."""

    def __init__(self, others: Sequence[Joined] | Sequence[str], every: int) -> None:
        self._others = others
        self._every = every
        self._steps = 0
        self.changes = 0

    def __call__(self, run: LocalRun) -> None:
        self._steps += 1
        for node in run.stages:
            if self._steps % self._every == 0 and node.is_clear:
                made = self._planned(node)
                if made is not None:
                    run.adapting.exchange(node, made)
                    self.changes += 1

    def _planned(self, node: OperatorNode) -> PhysicalNode | None:
        other = self._others[self.changes % len(self._others)]
        if isinstance(other, Joined):
            return as_tree(node.node, other) if can_change_join(node.node) else None
        if not can_change_window(node.node):
            return None
        window = node.node.logical
        assert isinstance(window, WindowAggregate)
        assert window.choice is not None
        kind = next(each for each in ALGORITHMS if each.name == other)
        chosen = replace(window, choice=replace(window.choice, algorithm=kind))
        return replace(node.node, operator=ALGORITHMS[kind], logical=chosen)


def check(
    sql: str,
    exchanging: Exchanging,
    cut: int | None,
    restart: int | None,
    picks: list[int],
    first: Joined | None = None,
    **streams: Stream,
) -> None:
    reference = definition(planned(sql, JoinKind.INNER, None, **streams), ManualClock())
    with pytest.MonkeyPatch.context() as patch:
        _check_promises(patch)
        if first is not None:
            patch.setattr(interleaved, "in_process", lambda query: planned_as(query, first))
            patch.setattr(pairing, "_HASHED", 1)
        query = planned(sql, JoinKind.INNER, cut, **streams)
        found = run_interleaved(query, picks, restart, exchanging)
    assert bag(tuples(found.rows)) == bag(tuples(reference.table))
    assert found.late == plainly([reference.late])


def _check_promises(patch: pytest.MonkeyPatch) -> None:
    """Of every node, across all operators that it has."""
    kept: dict[int, Kept] = {}
    for name in ("on_batch", "on_progress"):
        method = getattr(Measured, name)

        def checked(self: Measured, *given: object, _method: object = method) -> list[object]:
            items = list(_method(self, *given))  # type: ignore[operator]
            for item in items:
                kept.setdefault(id(self), Kept()).see(item)
            return items

        patch.setattr(Measured, name, checked)


@settings(deadline=None, max_examples=40)
@given(
    several=st.tuples(SHORT, SHORT, SHORT),
    first=trees(range(3)),
    others=st.lists(trees(range(3)), min_size=1, max_size=4),
    select=st.sampled_from(SELECT_OF_THREE),
    source=st.sampled_from(THREE),
    where=st.sampled_from(WHERE),
    late=st.sampled_from(["LATE SIDE", "LATE AMEND FOR 3"]),
    every=st.integers(1, 3),
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_joins(
    several: tuple[Stream, ...],
    first: JoinTree,
    others: list[JoinTree],
    select: str,
    source: str,
    where: str,
    late: str,
    every: int,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    named = select.format(columns=all_columns("abc"), source=source, where=where, side="a")
    assert isinstance(first, Joined)
    trees_ = [each for each in others if isinstance(each, Joined)]
    streams = dict(zip("abc", several, strict=True))
    check(f"{named} {late}", Exchanging(trees_, every), cut, restart, picks, first, **streams)


@settings(deadline=None, max_examples=30)
@given(
    a=SHORT,
    others=st.lists(st.sampled_from([each.name for each in ALGORITHMS]), min_size=1, max_size=5),
    aggregates=st.sampled_from(["count(*) AS c, sum(n) AS s", "max(n) AS m", "median(x) AS m"]),
    window=st.sampled_from(["RANGE 6, SLIDE 2", "RANGE 5, SLIDE 3", "RANGE 4, SLIDE 4"]),
    every=st.integers(1, 3),
    cut=CUT,
    restart=RESTART,
    picks=PICKS,
)
def test_windows(
    a: Stream,
    others: list[str],
    aggregates: str,
    window: str,
    every: int,
    cut: int | None,
    restart: int | None,
    picks: list[int],
) -> None:
    sql = f"SELECT k, {aggregates} [{window}, WA t] FROM a GROUP BY k LATE SIDE"
    check(sql, Exchanging(others, every), cut, restart, picks, a=a)
