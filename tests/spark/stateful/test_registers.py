"""What a bucket remembers of the promises before a micro-batch: of a source by the reports of its
tasks, of a stage by what its buckets say.

tests/spark/tasks/test_bounds.py compares registers and tasks with the definition tuple by tuple.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.operator import Progress
from penstock.kernel.progress.sub_sources import NOTHING
from penstock.kernel.state import MemoryStore
from penstock.model.clock import ManualClock
from penstock.model.punctuation import BEGINNING, Delay, Ordered, ProgressPolicy, Slack
from penstock.model.types import STRING
from penstock.plan.expressions import Column
from penstock.plan.streams import StreamProgress
from penstock.spark.stateful.registers import SourceRegister, StageRegister, slowest
from penstock.spark.tasks.messages import NO_MOVES, Moves, Reports

PER_K = Column("k", STRING, "s")


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def reports(bounds: dict[str, int], moves: Moves = NO_MOVES, **held: list[int]) -> Reports:
    """Where the sub-sources of a task have come, and what SLACK holds back of each."""
    recent = [value for name in bounds for value in held.get(name, [])]
    return Reports(
        pa.array(list(bounds), pa.string()),
        ints(*bounds.values()),
        np.ones(len(bounds), np.int64),
        ints(*(len(held.get(name, [])) for name in bounds)),
        ints(*recent),
        moves,
    )


def register(policy: ProgressPolicy, clock: ManualClock, live: bool = False) -> SourceRegister:
    return SourceRegister(StreamProgress("t", policy, PER_K), "s.t", [], clock, live)


def take(to: SourceRegister, told: Reports, high: int = BEGINNING) -> list[int]:
    """One task; the bounds that its sub-sources had before it."""
    starts = to.join(told)
    to.advance(starts, told, high)
    return starts.bounds.tolist()


def test_the_lowest_counts() -> None:
    made = register(ProgressPolicy(Delay(3)), ManualClock())
    assert made.progress() == Progress()
    assert take(made, reports({"a": 10, "b": 7}), high=13) == [NOTHING, NOTHING]
    assert made.progress() == Progress({"s.t": 7}, {"s.t": 13})
    assert take(made, reports({"b": 20})) == [7]
    assert made.progress() == Progress({"s.t": 10}, {"s.t": 13})


def test_bounds_never_go_back() -> None:
    made = register(ProgressPolicy(Ordered()), ManualClock())
    take(made, reports({"a": 10}), high=10)
    assert take(made, reports({"a": 4}), high=4) == [10]
    assert made.progress() == Progress({"s.t": 10}, {"s.t": 10})


def test_a_newcomer_joins_at_the_low_watermark_of_its_moment() -> None:
    """`a` moved to 5 before the first row of `b`, and to 9 only after it."""
    made = register(ProgressPolicy(Ordered()), ManualClock())
    moves = Moves(ints(0), ints(1), ints(5), ints(0))
    assert take(made, reports({"a": 9, "b": 6}, moves)) == [NOTHING, 5]
    assert made.low == 6
    assert take(made, reports({"c": 100})) == [6]


def test_what_slack_held_back_comes_out_with_later_rows() -> None:
    made = register(ProgressPolicy(Slack(2)), ManualClock())
    take(made, reports({"a": NOTHING}, a=[5, 8]))
    assert made.low == BEGINNING
    starts = made.join(reports({"a": NOTHING}, a=[9]))
    assert starts.of_rows(ints(0, 0, 0), ints(0, 1, 2)).tolist() == [NOTHING, 5, 8]
    made.advance(starts, reports({"a": NOTHING}, a=[9]), 9)
    assert made.low == 5


def test_files_are_waited_for_from_the_start_and_not_behind_their_end() -> None:
    progress = StreamProgress("t", ProgressPolicy(Ordered()), None, per_file=True)
    made = SourceRegister(progress, "s.t", ["1.csv", "2.csv"], ManualClock())
    take(made, reports({"1.csv": 10}))
    assert made.progress() == Progress()
    assert made.status()["waits_for"] == ["2.csv"]
    made.remove_files(["2.csv"])
    assert made.progress().bounds == {"s.t": 10}
    made.add_files(["3.csv"])
    take(made, reports({"1.csv": 20}))
    assert made.progress().bounds == {"s.t": 10}


def test_the_end() -> None:
    made = register(ProgressPolicy(Ordered()), ManualClock())
    take(made, reports({"a": 3}), high=3)
    made.finish()
    assert made.progress().ended
    assert made.status() == {
        "low": made.low,
        "high": 3,
        "ended": True,
        "waits_for": [],
        "waits_for_others": 0,
    }


@pytest.mark.parametrize("goes_on", [True, False])
def test_silence(goes_on: bool) -> None:
    """A silent sub-source is left out; a stop in between is no silence, going on is."""
    clock = ManualClock()
    policy = ProgressPolicy(Ordered(), idle_after=100)
    made = register(policy, clock, live=True)
    take(made, reports({"a": 3, "b": 4}))
    clock.advance(60)
    take(made, reports({"b": 8}))
    assert made.low == 3
    store = MemoryStore()
    made.save(store)
    loaded = register(policy, clock, live=True)
    loaded.load(store)
    if goes_on:
        loaded.resume_silence(store)
    clock.advance(60)
    assert loaded.idle is not None
    loaded.idle.look()
    assert loaded.low == (8 if goes_on else 3)


def test_what_is_read_to_its_end_is_never_silent() -> None:
    assert register(ProgressPolicy(Ordered(), idle_after=100), ManualClock()).idle is None


def test_without_progress_there_is_only_an_end() -> None:
    made = SourceRegister(None, None, [], ManualClock())
    take(made, reports({}), high=5)
    assert made.progress() == Progress()
    made.finish()
    assert made.progress() == Progress(ended=True)


# --- stages --------------------------------------------------------------------------------------


def test_the_slowest_bucket_counts() -> None:
    made = StageRegister(2, {"window_end": "s.t"})
    made.advance(0, Progress({"window_end": 9}, {"window_end": 12}))
    assert made.progress() == Progress({}, {"window_end": 12})
    made.advance(1, Progress({"window_end": 4}, {"window_end": 5}))
    assert made.progress() == Progress({"window_end": 4}, {"window_end": 12})
    made.advance(1, Progress({"window_end": 4}, {"window_end": 5}, ended=True))
    assert made.progress() == Progress({"window_end": 9}, {"window_end": 12})


def test_a_stage_is_saved_by_where_its_columns_come_from() -> None:
    made, store = StageRegister(2, {"window_end": "s.t"}), MemoryStore()
    for bucket in range(2):
        made.advance(bucket, Progress({"window_end": 9 - bucket}, {}))
    made.save(store)
    renamed = StageRegister(2, {"until": "s.t"})
    renamed.load(store)
    assert renamed.progress() == Progress({"until": 8}, {})


BOUNDS = st.dictionaries(st.sampled_from("ab"), st.integers(-5, 5))


@given(st.lists(st.builds(Progress, BOUNDS, BOUNDS, st.booleans()), min_size=1, max_size=4))
def test_what_several_promise_together_each_of_them_promises(told: list[Progress]) -> None:
    together = slowest(told)
    assert together.ended == all(each.ended for each in told)
    waiting = [each for each in told if not each.ended]
    for name, bound in together.bounds.items():
        assert bound == min(each.bounds[name] for each in waiting)
    for each in told:
        for name, high in each.high.items():
            assert together.high[name] >= high
