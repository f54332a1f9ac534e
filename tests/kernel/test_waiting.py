"""Rows that wait leave in order, each once, whatever comes in between and however often the state
is saved and loaded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel import order
from penstock.kernel.order import WaitingRows
from penstock.kernel.state import MemoryStore
from penstock.model.punctuation import BEGINNING, END, Bound

ADDED = st.lists(st.integers(-3, 12), max_size=6)
STEPS = st.lists(st.tuples(ADDED, st.integers(0, 4), st.booleans()), max_size=12)


def batch(ticks: list[int], number: int) -> pa.RecordBatch:
    names = [f"{number}.{place}" for place in range(len(ticks))]
    return pa.record_batch({"t": pa.array(ticks, pa.int64()), "n": pa.array(names, pa.string())})


def taken_rows(waiting_rows: WaitingRows, last: Bound) -> list[tuple[int, str]]:
    taken = waiting_rows.take(last)
    if taken is None:
        return []
    assert taken.ticks.tolist() == taken.rows.column("t").to_pylist()
    return list(zip(*taken.rows.to_pydict().values(), strict=True))


@pytest.mark.parametrize("few", [1, 8])
@settings(deadline=None, max_examples=80)
@given(steps=STEPS)
def test_rows_leave_in_order_and_once(few: int, steps: list[tuple[list[int], int, bool]]) -> None:
    """What is added may be as low as what has been taken, never lower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_FEW", few)
        patch.setattr(order, "_SHORT", 0)
        rows, store = WaitingRows(), MemoryStore()
        kept: list[tuple[int, str]] = []
        last = -3
        for number, (added, further, restarts) in enumerate(steps):
            ticks = [max(tick, last) for tick in added]
            rows.add(batch(ticks, number), np.array(ticks, np.int64))
            kept += zip(*batch(ticks, number).to_pydict().values(), strict=True)
            if restarts:
                rows = saved_and_loaded(rows, store)
            last += further
            expected = sorted([row for row in kept if row[0] <= last], key=lambda row: row[0])
            kept = [row for row in kept if row[0] > last]
            assert taken_rows(rows, last) == expected
            assert len(rows) == len(kept)
            assert rows.lowest() == min((tick for tick, _ in kept), default=END)
            if restarts:
                rows = saved_and_loaded(rows, store)
        everything = rows.all()
        expected = sorted(kept, key=lambda row: row[0])
        assert (everything.ticks.tolist() if everything else []) == [tick for tick, _ in expected]
        assert taken_rows(rows, END) == expected
        rows.save(store)
        assert not [name for name in store.names() if name.startswith("waiting/")]


def saved_and_loaded(rows: WaitingRows, store: MemoryStore) -> WaitingRows:
    rows.save(store)
    rows.save(store)  # once more changes nothing
    loaded = WaitingRows()
    loaded.load(store, ["t", "n"])
    assert len(loaded) == len(rows)
    return loaded


def test_rows_without_a_tick_come_last() -> None:
    rows, store = WaitingRows(), MemoryStore()
    rows.add_last(batch([0], 1))
    top = np.iinfo(np.int64).max
    rows.add(batch([5, top], 2), np.array([5, top]))
    assert rows.take(BEGINNING) is None
    rows = saved_and_loaded(rows, store)
    assert [name for _, name in taken_rows(rows, 5)] == ["2.0"]
    taken = rows.take(END)
    assert taken is not None
    assert taken.rows.column("n").to_pylist() == ["2.1", "1.0"]
    rows.save(store)
    assert "waiting last" not in store.names()


def test_a_save_writes_what_has_come_since_the_last_one() -> None:
    rows, store = WaitingRows(), MemoryStore()
    rows.add(batch([1, 9], 1), np.array([1, 9]))
    rows.save(store)
    first = dict(store.packed)
    rows.add(batch([4], 2), np.array([4]))
    rows.take(3)
    rows.save(store)
    assert {name for name in store.names() if store.packed[name] != first.get(name)} == {
        "waiting/1",
        "waiting taken",
    }


def test_what_has_left_is_not_kept_in_memory() -> None:
    rows = WaitingRows()
    ticks = np.arange(1000)
    rows.add(batch(ticks.tolist(), 1), ticks)
    rows.take(900)
    left = rows.all()
    assert left is not None
    assert sum(buffer.size for buffer in left.rows.column("t").buffers() if buffer) < 2000


def test_what_is_taken_before_its_turn_is_gone_and_the_rest_waits_as_before() -> None:
    rows, store = WaitingRows(), MemoryStore()
    rows.add(batch([7, 3], 1), np.array([7, 3]))
    rows.take(2)
    rows.save(store)
    taken = rows.take_all()
    assert taken is not None
    assert taken.ticks.tolist() == [3, 7]
    assert rows.take_all() is None
    rows.add(batch([5], 2), np.array([5]))
    rows = saved_and_loaded(rows, store)
    assert rows.take(4) is None
    rows = saved_and_loaded(rows, store)
    assert taken_rows(rows, 5) == [(5, "2.0")]
