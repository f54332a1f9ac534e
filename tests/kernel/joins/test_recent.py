"""RECENT: what is kept of first tuples, and DuckDB's ASOF JOIN as a second opinion."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.state import MemoryStore
from tests.kernel.joins.feeding_sequences import Fed
from tests.kernel.joins.interleaved import Given, keeping, planned, ran
from tests.reference.helpers import bag

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 3),
        st.integers(0, 30),
        st.none() | st.integers(0, 2),
    ),
    max_size=40,
)
# of tuples with one key and time, the greatest by the values that are left: NULL is above all
ASOF = """
SELECT a.k, a.t, a.v, b.k, b.t, b.v FROM b ASOF {kind} JOIN (
  SELECT k, t, CASE WHEN count(*) = count(v) THEN max(v) END AS v FROM a GROUP BY k, t
) a ON a.k = b.k AND b.t >= a.t
"""


@settings(deadline=None, max_examples=60)
@given(first=ROWS, second=ROWS, turns=st.lists(st.integers(0, 1), max_size=8), keeps=st.booleans())
def test_as_of(first: list[Any], second: list[Any], turns: list[int], keeps: bool) -> None:
    streams = {
        "a": Given(SCHEMA, first, {"delay": 30}),
        "b": Given(SCHEMA, second, {"delay": 30}),
    }
    db = duckdb.connect()
    for name, stream in streams.items():
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in stream.rows]
        db.register(name, pa.Table.from_pylist(rows, SCHEMA))
    expected = db.sql(ASOF.format(kind="LEFT" if keeps else "")).fetchall()
    sql = "SELECT * FROM SEQUENCE(a THEN b MODE RECENT ON a.k = b.k)"
    for cut in (1, 7, 1000):
        plan = planned(sql, streams, cut, keeping(False, keeps))
        assert bag(ran(plan, turns).rows) == bag(expected)


def test_the_latest_of_a_key_hides_those_before() -> None:
    fed = Fed("MODE RECENT ON a.k = b.k")
    fed.first([(n % 10, n) for n in range(1000)], bound=1000)
    assert fed.held == 1000  # a second tuple may come at any time
    fed.second([], bound=500)
    assert fed.held == 10 + 499  # the latest up to 500, and all above
    fed.second([(3, 700), (4, 500)], bound=600)
    assert fed.pairs == [(693, 700), (494, 500)]
    assert fed.held == 10 + 399


def test_while_the_first_input_lags_second_tuples_wait() -> None:
    fed = Fed("MODE RECENT")
    fed.second([(0, 5), (0, 9)], bound=100)
    fed.first([(0, 1), (0, 7)], bound=6)
    assert fed.pairs == [(1, 5)]
    assert fed.held == 2  # 9 waits, and 7, which hides 1 from it
    fed.first([(0, 8)], bound=10)
    assert fed.pairs == [(1, 5), (8, 9)]
    assert fed.held == 1


def test_a_tuple_may_come_before_one_that_stands_for_its_key() -> None:
    fed = Fed("MODE RECENT")
    fed.first([(0, 8)], bound=2)
    fed.second([], bound=50)
    fed.first([(0, 3)], bound=3)
    fed.second([(0, 60)], bound=60)
    fed.first([], bound=61)
    assert fed.pairs == [(8, 60)]


def test_what_is_too_old_is_forgotten() -> None:
    fed = Fed("MODE RECENT ON a.k = b.k WITHIN 10")
    fed.first([(n, n) for n in range(100)], bound=100)
    fed.second([], bound=95)
    assert fed.held == 15  # from 85 on
    fed.second([(90, 96), (99, 99)], bound=99)
    assert fed.pairs == [(90, 96), (99, 99)]
    assert fed.held == 11


def test_conditions_on_one_side_alone_keep_nothing_in_vain() -> None:
    fed = Fed("MODE RECENT ON a.k > 5 AND b.k > 5")
    fed.first([(n % 10, n) for n in range(100)], bound=100)
    assert fed.held == 40
    fed.second([(5, 200), (6, 150)], bound=120)
    assert fed.held == 2  # the last 9, and the one that waits


def test_a_save_writes_what_has_come_since() -> None:
    fed = Fed("MODE RECENT ON a.k = b.k")
    fed.first([(n, n // 10) for n in range(20_000)], bound=2000)
    fed.second([], bound=2000)
    store = MemoryStore()
    fed.operator.save(store)
    before = dict(store.packed)
    fed.first([(7, 2001)], bound=2001)
    fed.second([], bound=2001)
    fed.operator.save(store)
    changed = sum(len(packed) for key, packed in store.packed.items() if before.get(key) != packed)
    assert fed.held == 20_000
    assert changed * 20 < sum(map(len, store.packed.values()))
