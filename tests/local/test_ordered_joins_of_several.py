"""Ordered joins of two streams and more: whatever the disorder, results leave in the order of all
of their times, or of the time of the first stream, and within what they promise."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.io.sinks.sink import Collected
from penstock.local.run import LocalRun
from penstock.model.clock import ManualClock
from penstock.plan.algorithms import JoinAlgorithm
from penstock.runs.answer import Outlet
from tests.local.helpers import recut
from tests.local.joining import CUT, PROMISE
from tests.local.side_by_side import TURNS, run_interleaved, ticks_of
from tests.local.test_ordered_joins import watching, with_hint
from tests.reference.helpers import Row, Stream, bag, database, tuples

NAMES = "abcd"
SCHEMA = "k STRING, x DOUBLE, n INT, t INT"
STEPS = st.lists(st.tuples(st.sampled_from("aab"), st.integers(-3, 4)), min_size=2, max_size=7).map(
    lambda steps: [
        (k, None, n % 2, sum(step for _, step in steps[: n + 1])) for n, (k, _) in enumerate(steps)
    ]
)
STREAM = st.builds(Stream, st.just(SCHEMA), STEPS, PROMISE)
BY_FIRST = (JoinAlgorithm.OPOB, JoinAlgorithm.OPIB)
BY_ALL = (JoinAlgorithm.SYNC_FILTER, JoinAlgorithm.FILTER_ORDER, JoinAlgorithm.ADAPTIVE_JOIN)


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, str]:
    """Streams, how they are joined, and what their keys have to do with each other."""
    names = NAMES[: draw(st.integers(2, 4))]
    pairs = [(one, other) for n, other in enumerate(names) for one in names[:n]]
    kept = draw(st.lists(st.sampled_from(pairs), max_size=3))
    where = " AND ".join(f"{one}.k = {other}.k" for one, other in kept)
    match draw(st.sampled_from(["windows", "tumbling", "bands"])):
        case "windows":
            stays = [draw(st.integers(0, 6)) for _ in names]
            pairs_of = zip(names, stays, strict=True)
            source = ", ".join(f"{name} [RANGE {stay}, WA t]" for name, stay in pairs_of)
        case "tumbling":
            source = ", ".join([f"{names[0]} [RANGE TUMBLING 4, WA t]", *names[1:]])
        case _:
            source = names[0]
            for n, name in enumerate(names[1:]):
                near = draw(st.sampled_from(names[: n + 1]))
                low = draw(st.integers(-4, 2))
                high = low + draw(st.integers(0, 4))
                source += f" JOIN {name} ON {name}.t BETWEEN {near}.t + {low} AND {near}.t + {high}"
    return names, f"{source} WHERE {where}" if where else source


def _times(names: str) -> str:
    return ", ".join(f"{name}.t" for name in names)


@settings(deadline=None, max_examples=60)
@given(
    made=sources(),
    streams=st.lists(STREAM, min_size=4, max_size=4),
    hints=st.lists(st.sampled_from(BY_FIRST), min_size=1, max_size=2)
    | st.lists(st.sampled_from(BY_ALL), min_size=1, max_size=3),
    loads=st.lists(st.sampled_from([0.0, 0.9]), min_size=1, max_size=6),
    cut=CUT,
    turns=TURNS,
    every=st.sampled_from([None, 2, 3, 5]),
    in_order=st.sampled_from(["", "EMIT IN ORDER"]),
)
def test_results_leave_in_order(
    made: tuple[str, str],
    streams: list[Stream],
    hints: list[JoinAlgorithm],
    loads: list[float],
    cut: int | None,
    turns: list[int],
    every: int | None,
    in_order: str,
) -> None:
    """With restarts, the next run goes on with the next algorithm."""
    names, source = made
    by = f"{names[0]}.t" if hints[0] in BY_FIRST else f"greatest({_times(names)})"
    columns = ", ".join(f"{name}.n AS n{name}, {name}.t AS t{name}" for name in names)
    db = database(**dict(zip(names, streams, strict=False)))
    recut(db, cut)
    query = db.sql(f"SELECT {by} AS o, {columns} FROM {source} LATE SIDE {in_order}")
    assert isinstance(query, ps.Query)
    expected = query.collect()
    with watching(loads):
        found = run_interleaved(query.plan, turns, every, [with_hint(hint) for hint in hints])
    assert bag(tuples(found.rows)) == bag(tuples(expected))
    late: list[Row] = [] if found.late is None else tuples(found.late)
    assert bag(late) == bag(tuples(query.late))
    ticks = ticks_of(found.batches, "o")
    assert ticks == sorted(ticks)


@settings(deadline=None, max_examples=25)
@given(
    made=sources(),
    rows=st.lists(STEPS, min_size=4, max_size=4),
    hint=st.sampled_from([*BY_FIRST, *BY_ALL]),
)
def test_a_final_run_gives_out_all_that_waits(
    made: tuple[str, str], rows: list[list[Row]], hint: JoinAlgorithm
) -> None:
    """By a bound, so that another run can go on later."""
    names, source = made
    streams = {
        n: Stream(SCHEMA, r, ps.progress("t", delay=9)) for n, r in zip(names, rows, strict=False)
    }
    query = database(**streams).sql(f"SELECT {_times(names)} FROM {source}")
    assert isinstance(query, ps.Query)
    found = Collected()
    plan = with_hint(hint)(query.plan)
    run = LocalRun([plan], [Outlet(query.plan, found)], ManualClock(), resumable=True)
    for scan in run.scans:
        for chunk in scan.chunks():
            run.feed(scan, chunk)
    run.close_all()
    assert bag(tuples(found.table)) == bag(tuples(query.collect()))
    assert "ended" not in run.closed.values()
