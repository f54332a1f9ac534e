"""Sequence joins against a simulation in the order of time, from decision 10."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, examples, tuples

SCHEMA = "n INT, k STRING, t INT"


@st.composite
def numbered(draw: st.DrawFn) -> list[Row]:
    keys = st.sampled_from(["a", "b", None])
    found = draw(st.lists(st.tuples(keys, st.integers(-5, 8)), max_size=12))
    return [(n, k, t) for n, (k, t) in enumerate(found)]


ROWS = numbered()


def answer(clauses: str, first: list[Row], second: list[Row]) -> list[Row]:
    promise = ps.progress("t", ordered=True)
    query = ask(
        f"SELECT a.n, b.n FROM SEQUENCE(a THEN b {clauses}) LATE AMEND",
        a=Stream(SCHEMA, first, promise),
        b=Stream(SCHEMA, second, promise),
    )
    return tuples(query.collect())


def simulate(mode: str, first: list[Row], second: list[Row], on: bool, within: Any) -> list[Row]:
    """Let time pass: at each tick first the As come in, in the order of arrival, then the Bs."""
    waiting: list[Row] = []
    pairs = []
    for now in sorted({t for _, _, t in [*first, *second]}):
        waiting += [a for a in first if a[2] == now]
        for b in (b for b in second if b[2] == now):
            fits = [
                a
                for a in waiting
                if (not on or (a[1] is not None and a[1] == b[1]))
                and (within is None or now - a[2] <= within)
            ]
            if fits and mode == "RECENT":
                pairs.append((fits[-1][0], b[0]))
            elif fits:
                pairs.append((fits[0][0], b[0]))
                waiting.remove(fits[0])
    return pairs


@pytest.mark.parametrize("mode", ["RECENT", "CHRONICLE"])
@examples
@given(
    first=ROWS,
    second=ROWS,
    on=st.booleans(),
    within=st.none() | st.integers(0, 5),
)
def test_pairs(
    mode: str, first: list[Row], second: list[Row], on: bool, within: int | None
) -> None:
    clauses = f"MODE {mode}" + " ON a.k = b.k" * on
    clauses += f" WITHIN {within}" if within is not None else ""
    assert bag(answer(clauses, first, second)) == bag(simulate(mode, first, second, on, within))


@pytest.mark.parametrize("mode", ["RECENT", "CHRONICLE"])
@examples
@given(rows=ROWS)
def test_each_second_tuple_once(mode: str, rows: list[Row]) -> None:
    """At most one pair for a B; with CHRONICLE at most one for an A as well."""
    pairs = answer(f"MODE {mode}", rows, rows)
    seconds = [b for _, b in pairs]
    assert len(set(seconds)) == len(seconds)
    if mode == "CHRONICLE":
        firsts = [a for a, _ in pairs]
        assert len(set(firsts)) == len(firsts)


FIRST = [(0, "a", 0), (1, "b", 2), (2, "a", 2), (3, "a", 9)]
SECOND = [(0, "a", 2), (1, "a", 3), (2, "b", 3), (3, "c", 1), (4, None, 9), (5, "a", -1)]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        # on equal times A comes first; of equal As the one that arrived last is the latest
        ("MODE RECENT", [(0, 3), (2, 0), (2, 1), (2, 2), (3, 4)]),
        ("MODE CHRONICLE", [(0, 3), (1, 0), (2, 1), (3, 4)]),
        ("MODE RECENT ON a.k = b.k", [(2, 0), (2, 1), (1, 2)]),
        ("MODE CHRONICLE ON a.k = b.k", [(0, 0), (2, 1), (1, 2)]),
        ("MODE RECENT WITHIN 0", [(2, 0), (3, 4)]),
        ("MODE CHRONICLE WITHIN 1", [(0, 3), (1, 0), (2, 1), (3, 4)]),
        ("MODE CHRONICLE ON a.k = b.k WITHIN 1", [(2, 0), (1, 2)]),
        ("MODE RECENT WITHIN 1 ON a.k = b.k", [(2, 0), (2, 1), (1, 2)]),
    ],
)
def test_examples(clauses: str, expected: list[Row]) -> None:
    assert bag(answer(clauses, FIRST, SECOND)) == bag(expected)


def test_a_sequence_of_three() -> None:
    """Two steps at a time, the first two in a sub-query."""
    promise = ps.progress("t", ordered=True)
    query = ask(
        "SELECT ab.n1, ab.n2, c.n AS n3 FROM SEQUENCE("
        "(SELECT a.n AS n1, b.n AS n2, b.t AS t FROM SEQUENCE(a THEN b MODE RECENT)) ab "
        "THEN c MODE RECENT)",
        a=Stream(SCHEMA, [(0, "a", 0), (1, "a", 4)], promise),
        b=Stream(SCHEMA, [(0, "a", 2), (1, "a", 5)], promise),
        c=Stream(SCHEMA, [(0, "a", 1), (1, "a", 3), (2, "a", 6)], promise),
    )
    assert tuples(query.collect()) == [(0, 0, 1), (1, 1, 2)]


@examples
@given(
    data=st.data(),
    mode=st.sampled_from(["RECENT", "CHRONICLE"]),
    first=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 2))),
    second=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 3))),
)
def test_arrival_makes_no_difference(
    data: st.DataObject, mode: str, first: list[Row], second: list[Row]
) -> None:
    other = data.draw(st.permutations(first)), data.draw(st.permutations(second))
    assert bag(answer(f"MODE {mode}", first, second)) == bag(answer(f"MODE {mode}", *other))
