"""Sorted, counted runs: merged, taken back and renumbered, they count what counting rows does."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.aggregates.aggregate import from_sortable
from penstock.kernel.aggregates.frequencies import Counted, Frequencies, between, count, merge
from penstock.model.types import DOUBLE, STRING, Type
from penstock.model.values import to_arrow

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    DOUBLE: st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324]),
    STRING: st.sampled_from(["", "a", "b", "é", "z"]),
}
Rows = list[tuple[int, Any]]
KIND = st.sampled_from(list(VALUES))


def rows(sql_type: Type) -> st.SearchStrategy[Rows]:
    return st.lists(st.tuples(st.integers(0, 4), VALUES[sql_type]), max_size=20)


PIECES = KIND.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(rows(kind), max_size=6)))


def counted(given: Rows, sql_type: Type) -> Frequencies:
    groups = np.array([group for group, _ in given], np.int64)
    return count(groups, to_arrow([value for _, value in given], sql_type), sql_type)


def shown(run: Frequencies, sql_type: Type) -> dict[tuple[int, str], int]:
    """By group and value; the entries are in order, and no value is named for nothing."""
    keys = run.groups * (len(run.values) + 1) + run.ranks
    assert (np.diff(keys) > 0).all()
    assert len(run.values) <= len(run)
    values = from_sortable(run.values, sql_type).to_pylist()
    return {
        (int(group), repr(values[rank])): int(times)
        for group, rank, times in zip(run.groups, run.ranks, run.counts, strict=True)
    }


def by_hand(given: Rows) -> Counter[tuple[int, str]]:
    return Counter((group, repr(0.0 if value == 0 else value)) for group, value in given)


@settings(deadline=None)
@given(PIECES)
def test_merging_counts_all_rows(pieces: tuple[Type, list[Rows]]) -> None:
    sql_type, given = pieces
    run = counted([], sql_type)
    for piece in given:
        run = merge(run, counted(piece, sql_type))
    assert shown(run, sql_type) == by_hand([row for piece in given for row in piece])


@settings(deadline=None)
@given(PIECES, st.integers(0, 6))
def test_what_is_taken_back_is_gone(pieces: tuple[Type, list[Rows]], kept: int) -> None:
    """In any order of merging and taking back."""
    sql_type, given = pieces
    parts = []
    for piece in given:
        part = Counted(sql_type)
        for group, value in piece:
            part.fold(np.array([group]), to_arrow([value], sql_type))
        parts.append(part)
    total = Counted(sql_type)
    for part in parts:
        total.merge(part)
        if part is not parts[0]:
            assert all(len(a) > 2 * len(b) for a, b in pairwise(total.runs))
    for part in parts[kept:]:
        total.merge(part, -1)
    run = total.one() or counted([], sql_type)
    assert shown(run, sql_type) == by_hand([row for piece in given[:kept] for row in piece])
    for piece, part in zip(given, parts, strict=True):
        own = part.one() or counted([], sql_type)
        assert shown(own, sql_type) == by_hand(piece)


@settings(deadline=None)
@given(PIECES, st.permutations(range(5)), st.integers(0, 5))
def test_groups_under_other_numbers(
    pieces: tuple[Type, list[Rows]], codes: list[int], many: int
) -> None:
    sql_type, given = pieces
    all_rows = [row for piece in given for row in piece]
    taken = counted(all_rows, sql_type).take(np.array(codes[:many], np.int64))
    place = {code: i for i, code in enumerate(codes[:many])}
    moved = [(place[group], value) for group, value in all_rows if group in place]
    assert shown(taken, sql_type) == by_hand(moved)


def test_a_long_run_is_shared_when_a_short_one_is_added() -> None:
    """The ends of a block hold one pane more each, not a copy of everything behind it."""
    long = count(np.zeros(1000, np.int64), pa.array(np.arange(1000.0)), DOUBLE)
    short = count(np.zeros(1, np.int64), pa.array([0.5]), DOUBLE)
    whole = Counted(DOUBLE)
    whole.add(short)
    whole.add(long)
    assert any(run is long for run in whole.runs)


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_half_way_is_rounded_once(low: float, high: float) -> None:
    low, high = sorted((low, high))
    exact = float((Fraction(low) + Fraction(high)) / 2)
    found = between(np.array([low]), np.array([high]), np.array([1]), 2)[0]
    assert found == exact
