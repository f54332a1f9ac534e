"""Aggregates of the user's: accumulated once per pane, merged, subtracted, saved."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import RunError
from penstock.functions.user_functions import Guarded
from penstock.kernel.aggregates.python_states import OfPython
from penstock.kernel.state import pack, unpack
from penstock.kernel.windows.paned import Paned
from penstock.kernel.windows.two_level import TwoLevel
from penstock.model.clock import ManualClock
from penstock.model.types import BIGINT, STRING
from penstock.plan.nodes.aggregation import WindowAggregate
from penstock.plan.nodes.query import QueryPlan
from penstock.reference.engine import answer
from tests.kernel.driving import Operators, restarting, run


class Pairs:
    """How often each pair of values occurs, as JSON.  Its states are changed in place."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.rows = 0

    def init(self) -> Counter[str]:
        return Counter()

    def accumulate(self, state: Counter[str], *columns: pa.Array) -> Counter[str]:
        self.calls["accumulate"] += 1
        self.rows += len(columns[0])
        state.update(map(str, zip(*(column.to_pylist() for column in columns), strict=True)))
        return state

    def merge(self, state: Counter[str], other: Counter[str]) -> Counter[str]:
        self.calls["merge"] += 1
        state.update(other)
        return state

    def finish(self, state: Counter[str]) -> str:
        return json.dumps(sorted(state.items()))


class Subtracting(Pairs):
    def subtract(self, state: Counter[str], other: Counter[str]) -> Counter[str]:
        self.calls["subtract"] += 1
        state.subtract(other)
        for key in [key for key, times in state.items() if not times]:
            del state[key]
        return state


class Saving(Pairs):
    def save(self, state: Counter[str]) -> bytes:
        self.calls["save"] += 1
        return json.dumps(state).encode()

    def load(self, saved: bytes) -> Counter[str]:
        return Counter(json.loads(saved))


class Lazy(Pairs):
    """Gives back the other state where there is nothing to add to."""

    def merge(self, state: Counter[str], other: Counter[str]) -> Counter[str]:
        return super().merge(state, other) if state else other


class Both(Subtracting, Saving):
    pass


KINDS = [Pairs, Subtracting, Saving, Both, Lazy]
Rows = list[tuple[str, int | None, str | None, int]]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, "u", "v"]),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=25,
)
FORMS = (
    "pairs(v, w) AS p, pairs(DISTINCT v, w) AS d, pairs(v, w) FILTER (WHERE v > 1) AS f,"
    " count(*) AS n"
)


def planned(user: Pairs, rows: Rows, cut: int, calls: str, window: str) -> QueryPlan:
    db = ps.connect()
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.string()), ("t", "int64")])
    columns = [
        pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    batches = pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=cut)
    db.stream("s", batches, progress=ps.progress("t", delay=4))
    db.aggregate("pairs", user, returns="STRING", arguments=["BIGINT", "STRING"])
    query = db.sql(f"SELECT k, {calls} [{window}, WA t] FROM s GROUP BY k")
    assert isinstance(query, ps.Query)
    return query.plan


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", [Paned, TwoLevel])
@pytest.mark.parametrize("cut", [1, 7, 1000])
@settings(deadline=None, max_examples=10)
@given(
    rows=ROWS, window=st.sampled_from(["RANGE 12, SLIDE 4", "RANGE 5, SLIDE 5", "RANGE 9, SLIDE 2"])
)
def test_the_definition(
    kind: type[Pairs], algorithm: Any, cut: int, rows: Rows, window: str
) -> None:
    plan = planned(kind(), rows, cut, FORMS, window)
    expected = sorted(
        map(repr, (tuple(row.values()) for row in answer(plan, ManualClock()).table.to_pylist()))
    )
    operators: Operators = {WindowAggregate: algorithm}
    assert run(plan, operators).rows == expected
    if algorithm is Paned:
        assert run(plan, restarting(operators)).rows == expected


@pytest.mark.parametrize("kind", [Pairs, Subtracting])
def test_every_tuple_is_accumulated_once(kind: type[Pairs]) -> None:
    """However many windows it is in."""
    user = kind()
    rows: Rows = [("a", t % 3, "u", t) for t in range(200)]
    plan = planned(user, rows, 50, "pairs(v, w) AS p", "RANGE 60, SLIDE 1")
    run(plan, {WindowAggregate: Paned})
    assert user.rows == user.calls["accumulate"] == 200  # one pane per tuple
    assert (user.calls["subtract"] > 0) == (kind is Subtracting)
    assert user.calls["merge"] < 5 * 260


def test_accumulate_is_given_all_rows_of_a_pane() -> None:
    user = Pairs()
    rows: Rows = [("a" if t % 2 else "b", 1, "u", t) for t in range(40)]
    run(planned(user, rows, 1, "pairs(v, w) AS p", "RANGE 20, SLIDE 20"), {WindowAggregate: Paned})
    assert user.rows == 40
    assert user.calls["accumulate"] == 4


def of(user: Any) -> OfPython:
    return OfPython(Guarded("mine", user, STRING))


def folded(what: OfPython, *values: int) -> Any:
    partial = what.new(1)
    columns = [pa.array(values, BIGINT.arrow), pa.array(["u"] * len(values))]
    what.fold(partial, np.zeros(len(values), np.int64), columns, np.zeros(len(values), np.int64))
    return partial


def finished(what: OfPython, partial: Any) -> str:
    return str(what.finish(partial, np.array([0]))[0].as_py())


@pytest.mark.parametrize("kind", KINDS)
def test_merging_leaves_the_pane_alone(kind: type[Pairs]) -> None:
    what = of(kind())
    pane = folded(what, 1, 2)
    before = finished(what, pane)
    total = what.new(1)
    for part in (pane, folded(what, 3), pane):
        what.merge(total, part)
    assert finished(what, pane) == before
    taken = what.take(pane, np.array([0]))
    what.merge(taken, folded(what, 5))
    spread = what.spread(pane, np.array([0]), 1)
    what.merge(spread, folded(what, 5))
    assert finished(what, taken) == finished(what, spread) != before
    assert finished(what, pane) == before


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_saved(kind: type[Pairs]) -> None:
    what = of(kind())
    total = folded(what, 1, 2)
    what.merge(total, folded(what, 2, 3))
    loaded = what.load(unpack(pack(what.save(total))))
    assert finished(what, loaded) == finished(what, total)
    what.merge(loaded, folded(what, 9))
    again = what.load(unpack(pack(what.save(loaded))))
    assert finished(what, again) == finished(what, loaded)


def test_rows_are_kept_only_for_those_that_cannot_be_saved() -> None:
    assert folded(of(Saving()), 1).kept is None
    what = of(Subtracting())
    total = folded(what, 1, 2)
    what.subtract(total, folded(what, 1))
    assert total.kept is None  # a window that slides for ever must not keep all that passed
    assert finished(what, total) == "[[\"(2, 'u')\", 1]]"
    with pytest.raises(RunError, match="mine cannot be saved"):
        what.save(total)


def test_a_group_without_rows_is_forgotten() -> None:
    what = of(Subtracting())
    total = folded(what, 1)
    what.subtract(total, folded(what, 1))
    assert not total.states
    assert finished(what, total) == "[]"


@pytest.mark.parametrize(
    "method", ["init", "accumulate", "merge", "subtract", "save", "load", "finish"]
)
def test_errors_name_the_aggregate(method: str) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError("no")

    user = Both()
    what = of(user)
    saved = what.save(folded(what, 1))
    setattr(user, method, failing)

    def use_all() -> None:
        total = folded(what, 1, 2)
        what.merge(total, folded(what, 3))
        what.subtract(total, folded(what, 3))
        what.save(total)
        what.load(saved)
        finished(what, total)

    with pytest.raises(RunError, match="the aggregate mine failed: ValueError: no"):
        use_all()


def test_a_saved_state_is_bytes() -> None:
    user = Saving()
    user.save = lambda state: "text"  # type: ignore[assignment, return-value, method-assign]
    what = of(user)
    with pytest.raises(RunError, match="save of the aggregate mine returned 'text', not bytes"):
        what.save(folded(what, 1))
