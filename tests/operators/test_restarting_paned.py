"""Paned-WID goes on from what it saved as if nothing had happened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.operators.chunks import MemoryStore
from penstock.operators.operator import Progress
from penstock.operators.paned import Paned
from tests.operators.algorithms_helper import CUTS, Stream, defined, items, outcome, streams
from tests.operators.restarting import Restarting


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("every", [1, 3])
@settings(deadline=None, max_examples=25)
@given(stream=streams())
def test_restart_changes_nothing(stream: Stream, cut: int | None, every: int) -> None:
    node = stream.node(cut)
    assert outcome(Restarting(lambda: Paned(node), every), node) == defined(stream.node())


def test_only_touched_panes_are_written() -> None:
    rows = [("a", 1, 1.0, t) for t in range(100)]
    node = Stream(rows, 50, 1, 0, 60, "count(*) AS n", "k").node(1)
    operator = Paned(node)
    written = []

    class Counting(MemoryStore):
        def put(self, key: str, chunk: object) -> None:
            written.append(key)
            super().put(key, chunk)

    store = Counting()
    for item in items(node):
        if isinstance(item, Progress):
            list(operator.on_progress(0, item))
        else:
            list(operator.on_batch(0, item))  # type: ignore[arg-type]
        operator.save(store)
    assert sum(key.startswith("panes/") for key in written) == 100
    assert sum(key.startswith("keys/") for key in written) == 1
    assert [key for key in store.names() if key.startswith("panes/")] == []
