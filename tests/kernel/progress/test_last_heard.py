"""Who has been silent for the longest, against a dictionary in the order of what was heard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.progress import source_progress
from penstock.kernel.progress.source_progress import BLOCK, LastHeard
from penstock.kernel.state import MemoryStore

CODES = st.lists(st.integers(0, 9) | st.sampled_from([BLOCK, 3 * BLOCK]), unique=True, max_size=6)
STEP = st.tuples(st.sampled_from(["put", "drop", "leave", "restart"]), CODES, st.integers(0, 2))


@given(st.lists(STEP, max_size=30))
def test_as_a_dictionary(steps: list[tuple[str, list[int], int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_progress, "_FEW", 3)  # names that are left behind are tidied up
        heard, expected, now, store = LastHeard(), dict[int, int](), 0, MemoryStore()
        for what, codes, passed in steps:
            now += passed
            if what == "put":
                expected |= dict.fromkeys(codes, now)
                heard.put(np.array(codes, np.int64), now)
            elif what == "drop":
                expected = {code: when for code, when in expected.items() if code not in codes}
                heard.drop(np.array(codes, np.int64))
            elif what == "leave" and expected:
                silent = heard.most_silent()
                expected = {c: when for c, when in expected.items() if c not in silent.tolist()}
                heard.drop(silent)
            else:
                heard.save(store)
                heard = LastHeard()
                heard.load(store)
            assert len(heard) == len(expected)
            if expected:
                longest = min(expected.values())
                assert heard.longest_silence == longest
                silent = heard.most_silent()
                assert silent.tolist() == sorted(c for c, w in expected.items() if w == longest)


def test_those_that_speak_all_the_time_leave_no_trace() -> None:
    heard = LastHeard()
    heard.put(np.arange(10_000), 0)
    for now in range(1, 30_000, 7):
        heard.put(np.array([5, now % 10_000]), now)
    assert heard._names <= 2 * len(heard) + source_progress._FEW
    assert heard.longest_silence == 0


def test_only_blocks_of_those_that_spoke_are_saved() -> None:
    heard, store = LastHeard(), MemoryStore()
    heard.put(np.arange(10 * BLOCK), 0)
    heard.save(store)
    store.packed.clear()
    heard.put(np.array([3 * BLOCK]), 1)
    heard.save(store)
    assert list(store.packed) == ["heard/3"]
