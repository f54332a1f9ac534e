"""What tasks report and registers make of it, against tuple by tuple: many sub-sources, newcomers
anywhere, tasks of any length, several messages of a task, restarts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.progress.sub_sources import NOTHING
from penstock.kernel.state import MemoryStore, pack, unpack
from penstock.model.arrays import Ints
from penstock.model.clock import ManualClock
from penstock.model.punctuation import Delay, Ordered, ProgressPolicy, Punctuated, Rule, Slack
from penstock.model.types import BIGINT
from penstock.plan.expressions import Column
from penstock.plan.streams import StreamProgress
from penstock.spark.stateful.registers import SourceRegister
from penstock.spark.tasks.messages import Reports, TaskBounds
from tests.kernel.progress.one_by_one import OneByOne, bound_of, meaningful

RULES: list[Rule] = [Ordered(), Delay(4), Slack(0), Slack(1), Slack(3), Slack(40)]


def register_of(rule: Rule) -> SourceRegister:
    per = Column("source", BIGINT, "s")
    return SourceRegister(StreamProgress("t", ProgressPolicy(rule), per), "s.t", [], ManualClock())


class Task:
    """One task of a micro-batch, which may send several messages."""

    def __init__(self, rule: Rule, register: SourceRegister) -> None:
        self._bounds = TaskBounds(rule)
        self._register = register

    def message(self, codes: Ints, ticks: Ints, at_once: int) -> Ints:
        """The bounds before some rows."""
        found = []
        waiting: list[tuple[Ints, Ints | None, Ints]] = []
        for begin in range(0, len(codes), at_once):
            part = slice(begin, begin + at_once)
            if len(codes[part]) == 1:
                own = self._bounds.before_of(int(codes[begin]), ticks[part], None)
            else:
                own = self._bounds.before(codes[part], ticks[part], None)
            places = self._bounds.places
            if places is None:
                places = np.full(len(own), self._bounds.place)
            waiting.append((places, self._bounds.numbers, own))
        names = pa.array(self._bounds.codes + 1000)
        self._reports = Reports.load(unpack(pack(self._bounds.reports(names).save())))
        self._starts = self._register.join(self._reports)
        for places, numbers, own in waiting:
            found.append(np.maximum(self._starts.of_rows(places, numbers), own))
        return np.concatenate([np.zeros(0, np.int64), *found])

    def end(self) -> None:
        self._register.advance(self._starts, self._reports, NOTHING)


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(deadline=None, max_examples=60)
@given(
    sub_sources=st.sampled_from([2, 6, 60, 5_000]),
    rows=st.integers(0, 200),
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.booleans(), st.booleans()), max_size=8),
    at_once=st.sampled_from([1, 2, 7, 1000]),
)
def test_as_tuple_by_tuple(
    rule: Rule,
    sub_sources: int,
    rows: int,
    seed: int,
    cuts: list[tuple[int, bool, bool]],
    at_once: int,
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, sub_sources, rows)
    ticks = np.arange(rows) // 3 + random.integers(0, 8, rows)
    expected, register, store = OneByOne(rule), register_of(rule), MemoryStore()
    places = [(0, True, False), *sorted((min(c, rows), a, b) for c, a, b in cuts)]
    task = Task(rule, register)
    for (begin, ends, restart), (end, _, _) in pairwise([*places, (rows, True, False)]):
        if ends and begin:
            task.end()
            assert register.low == meaningful(expected.low)
            if restart:
                register.save(store)
                register = register_of(rule)
                register.load(store)
            task = Task(rule, register)
        pairs = zip(codes[begin:end].tolist(), ticks[begin:end].tolist(), strict=True)
        before = [meaningful(expected.take(*each)) for each in pairs]
        found = task.message(codes[begin:end], ticks[begin:end], at_once)
        assert [bound_of(each) for each in found.tolist()] == before


def test_a_sub_source_that_only_punctuates_has_spoken() -> None:
    bounds = TaskBounds(Punctuated())
    bounds.before(np.array([3, 7, 3]), np.array([5, NOTHING, 6]), np.array([NOTHING, 9, NOTHING]))
    reports = bounds.reports(pa.array(["a", "b"]))
    assert bounds.codes.tolist() == [3, 7]
    assert bounds.places is not None
    assert bounds.places.tolist() == [0, 0]  # of the tuples
    assert reports.rows.tolist() == [2, 1]
    assert reports.bounds.tolist() == [NOTHING, 9]
