"""Tuples under numbers: whatever is added, marked, taken and forgotten, the rest stays as it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.joins.timed_inputs import KeptTuples
from penstock.kernel.state import MemoryStore

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist([{"n": n, "s": f"s{n}"} for n in numbers], SCHEMA)


@given(data=st.data(), steps=st.integers(1, 12), restarts=st.booleans())
def test_like_a_dictionary(data: st.DataObject, steps: int, restarts: bool) -> None:
    kept, store = KeptTuples(SCHEMA), MemoryStore()
    expected: dict[int, bool] = {}  # marked or not, by number
    added = 0
    for _ in range(steps):
        count = data.draw(st.integers(0, 80))
        assert kept.add(rows(added, count)).tolist() == list(range(added, added + count))
        expected |= dict.fromkeys(range(added, added + count), False)
        added += count
        some = (
            data.draw(st.lists(st.sampled_from(sorted(expected)), unique=True)) if expected else []
        )
        gone, marked = some[::2], some[1::2]
        kept.mark(np.array(marked, np.int64))
        kept.forget(np.array(gone, np.int64))
        expected = {n: m or n in marked for n, m in expected.items() if n not in gone}
        if restarts:
            kept.save(store)
            kept = KeptTuples(SCHEMA)
            loaded = kept.load(store)
            assert [n for numbers, _ in loaded for n in numbers.tolist()] == sorted(expected)
            assert [n for _, each in loaded for n in each.column("n").to_pylist()] == sorted(
                expected
            )
        assert len(kept) == len(expected)
        asked = data.draw(st.lists(st.sampled_from([-1, *expected]), max_size=9))
        asked += sorted(expected)[:: data.draw(st.integers(1, 9))]
        found = kept.columns(np.array(asked, np.int64))
        assert found[0].to_pylist() == [None if n < 0 else n for n in asked]
        assert found[1].to_pylist() == [None if n < 0 else f"s{n}" for n in asked]
        numbers = np.array(sorted(expected), np.int64)
        assert kept.marked(numbers).tolist() == [expected[n] for n in numbers.tolist()]


def test_what_is_gone_takes_no_room() -> None:
    kept = KeptTuples(SCHEMA)
    numbers = kept.add(rows(0, 10_000))
    kept.forget(numbers[:9_000])
    (piece,) = kept._pieces
    assert len(piece) == 1000
    kept.forget(numbers[9_000:])
    assert not kept._pieces
