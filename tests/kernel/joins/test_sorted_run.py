"""Partners that several threads look for in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.joins import sorted_run
from penstock.kernel.joins.sorted_run import SortedRun, Tuples
from penstock.model.arrays import Codes, Ints

SIZE = 5_000


def a_run() -> SortedRun:
    numbers = np.arange(SIZE)
    rows = pa.record_batch([pa.array(numbers)], names=["x"])
    return SortedRun.of(Tuples(rows, numbers, numbers // 100))


def looked_up(run: SortedRun, codes: Codes) -> Ints:
    times = np.zeros(len(codes), np.int64)
    wanted = run.places.wanted(codes, times, times + SIZE, 0, SIZE)
    return run.find(wanted).of


def test_whoever_comes_while_another_prepares_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread finds out about the keys is for others when it is complete."""
    run, codes = a_run(), np.arange(0, SIZE + 2_000)
    codes_of: Any = SortedRun.codes
    others: list[Ints] = []

    def meanwhile(self: SortedRun) -> Codes:
        if not others:
            others.append(np.zeros(0, np.int64))  # once
            others.append(looked_up(self, codes))
        found: Codes = codes_of.fget(self)
        return found

    monkeypatch.setattr(sorted_run, "_FEW_TUPLES", 0)
    monkeypatch.setattr(SortedRun, "codes", property(meanwhile))
    assert looked_up(run, codes).tolist() == list(range(SIZE))
    assert others[1].tolist() == list(range(SIZE))
