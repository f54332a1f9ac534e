"""Random queries over signed items, against the reference engine, however tuples come."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.joins.interleaved import check
from tests.kernel.retractions.nested import QUERIES
from tests.kernel.retractions.test_against_reference import EVERY, LATE, PROMISE, TURNS, streams

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "a", "b", None]),
        st.none(),
        st.sampled_from([1, 2, None]),
        st.integers(-2, 8),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=15)
@given(
    rows=st.tuples(ROWS, ROWS, ROWS),
    promises=st.tuples(PROMISE, PROMISE, PROMISE),
    query=QUERIES,
    late=LATE,
    turns=TURNS,
    every=EVERY,
)
def test_any_query(
    rows: Any, promises: Any, query: str, late: str, turns: list[int], every: Any
) -> None:
    check(f"{query} {late}", streams(rows, promises), turns, every)
