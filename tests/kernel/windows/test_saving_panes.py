"""What Paned-WID writes when it is saved: the panes that tuples came to, and nothing else."""

from __future__ import annotations

from penstock.kernel.operator import Progress
from penstock.kernel.state import MemoryStore
from penstock.kernel.windows.paned import Paned
from tests.kernel.algorithms_helper import Stream, items


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
