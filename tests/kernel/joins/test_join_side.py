"""What is kept of an input: few runs, and little work to forget tuples, however many stay."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.joins.join_side import Side
from penstock.kernel.joins.sorted_run import SortedRun, Tuples
from penstock.kernel.state import MemoryStore, Tree


def tuples(first: int, size: int, seed: int = 0) -> Tuples:
    """Times that rise by 1, out of order by up to 200."""
    rng = np.random.default_rng(seed + first)
    ticks = first + np.arange(size) - rng.integers(0, 200, size)
    rows = pa.record_batch({"t": pa.array(ticks)})
    return Tuples(rows, rng.integers(0, 50, size), ticks)


@pytest.mark.parametrize("live", [2_000, 60_000])
def test_work_to_forget_does_not_grow_with_what_stays(
    live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten = 0
    only = SortedRun.only

    def counted(run: SortedRun, which: np.ndarray, number: int = 0) -> SortedRun:
        nonlocal rewritten
        rewritten += int(np.count_nonzero(which))
        return only(run, which, number)

    monkeypatch.setattr(SortedRun, "only", counted)
    side, step = Side(), 500
    for first in range(0, 4 * live, step):
        side.add(SortedRun.of(tuples(first, step), side.places))
        side.forget(first - live)
        assert len(side.runs(-(2**63), 2**63 - 1)) <= 2 + np.log2(live / step)
        assert len(side) <= 1.25 * (live + step + 200) + step
    assert rewritten <= 5 * 4 * live  # at most a few times for every tuple that ever came


def test_only_new_runs_are_written() -> None:
    side = Side()
    written: list[str] = []

    class Noting(MemoryStore):
        def put(self, key: str, chunk: Tree) -> None:
            written.append(key)
            super().put(key, chunk)

    store = Noting()
    side.add(SortedRun.of(tuples(0, 4000)))
    side.save(store)
    assert written == ["runs/1"]
    side.add(SortedRun.of(tuples(4000, 100)))
    side.add_few(tuples(4100, 3))
    side.save(store)
    assert written[1:] == ["runs/2", "runs/3"]
    side.save(store)
    assert len(written) == 3
    side.forget(4000)
    side.save(store)
    assert "runs/1" not in store.names()
    assert len(store.names()) == len(side.runs(-(2**63), 2**63 - 1))


def test_tuples_that_come_alone_are_gathered() -> None:
    side = Side()
    for first in range(100):
        side.add_few(tuples(first, 1))
    (runs,) = side.runs_for([(-1, -1000, 1000)])
    assert sum(map(len, runs)) == 96
    assert len(runs) <= 3
    assert len(side) == 100
    assert sum(map(len, side.runs(-1000, 1000))) == 100
