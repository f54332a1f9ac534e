"""What is known of a stream is used, the rest is assumed, and EXPLAIN tells which is which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.optimizer.sizes import BATCH, Sizes, sizes_of
from penstock.plan.nodes.aggregation import WindowAggregate

TABLE = pa.table({"k": ["a", "b"] * 500, "t": list(range(0, 2000, 2))})
COUNT = "SELECT k, count(*) AS n [RANGE 100, SLIDE 10, WA t] FROM s GROUP BY k"


def found(database: ps.Database, sql: str = COUNT) -> Sizes:
    query = database.sql(sql)
    assert isinstance(query, ps.Query)
    node = next(each for each in query.plan.walk() if isinstance(each, WindowAggregate))
    return sizes_of(node)


def database(source: object, **promise: int | bool) -> ps.Database:
    made = ps.connect()
    made.stream("s", source, progress=ps.progress("t", **(promise or {"ordered": True})))
    return made


def test_a_table_says_how_many_tuples_a_window_has() -> None:
    sizes = found(database(TABLE, delay=7))
    assert sizes.tuples == pytest.approx(50, rel=0.01)
    assert (sizes.groups, sizes.disorder, sizes.batch) == (1000, 7, 1000)
    assert sizes.known == ("50 tuples a window",)
    assert sizes.assumed == ("1,000 groups",)


def test_a_window_has_no_more_tuples_than_there_are() -> None:
    wide = "SELECT count(*) [RANGE 1000000, SLIDE 10, WA t] FROM s"
    sizes = found(database(TABLE), wide)
    assert (sizes.tuples, sizes.groups) == (1000, 1)
    assert sizes.assumed == ()


def test_batches_are_as_they_come() -> None:
    assert found(database(TABLE.to_batches(max_chunksize=10))).batch == 10


def test_rows_are_counted_but_not_looked_at() -> None:
    sizes = found(database([{"k": "a", "t": 5}, {"k": "b", "t": 50}]))
    assert sizes.tuples == 2
    assert sizes.known == ("2 rows in all",)
    assert sizes.assumed == ("1 tuple a unit", "2 groups")


def test_what_can_be_read_once_is_not_read() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise AssertionError("read")

    sizes = found(database(batches()))
    assert (sizes.known, sizes.batch) == ((), BATCH)


def test_the_footers_of_parquet_files_say_it(tmp_path: Path) -> None:
    for number in range(2):
        part = TABLE.slice(500 * number, 500)
        pa.parquet.write_table(part, tmp_path / f"{number}.parquet", row_group_size=100)
    made = ps.connect(base=tmp_path)
    made.sql("CREATE STREAM s (k STRING, t BIGINT) FROM FILES '*.parquet' PROGRESS ON t ORDERED")
    sizes = found(made)
    assert sizes.tuples == pytest.approx(50, rel=0.01)
    assert sizes.known == ("50 tuples a window",)


@pytest.mark.parametrize("name", ["missing.parquet", "text.parquet", "data.csv"])
def test_files_that_do_not_say_it_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.parquet").write_text("k,t\n", encoding="utf-8")
    (tmp_path / "data.csv").write_text("k,t\na,1\n", encoding="utf-8")
    made = ps.connect(base=tmp_path)
    made.sql(f"CREATE STREAM s (k STRING, t BIGINT) FROM FILES '{name}' PROGRESS ON t ORDERED")
    assert found(made).known == ()


def test_slack_is_as_long_as_its_rows_take() -> None:
    assert found(database(TABLE, slack=50)).disorder == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize(
    ("sql_type", "value", "window", "rate"),
    [
        ("TIMESTAMP", "'2026-01-01'", "RANGE 1 HOUR, SLIDE 1 HOUR", "1,000 tuples a second"),
        ("DATE", "'2026-01-01'", "RANGE 7 DAYS, SLIDE 1 DAY", "100,000 tuples a day"),
        ("DECIMAL(9,3)", "1.5", "RANGE 10, SLIDE 10", "1 tuple a unit"),
    ],
)
def test_rates_are_assumed_by_type(sql_type: str, value: str, window: str, rate: str) -> None:
    made = ps.connect()
    made.sql(f"CREATE STREAM s (t {sql_type}) PROGRESS ON t ORDERED")
    made.sql(f"CREATE STREAM v (t {sql_type}) FROM VALUES ({value}) PROGRESS ON t ORDERED")
    assert found(made, f"SELECT count(*) [{window}, WA t] FROM s").assumed == (rate,)
    assert found(made, f"SELECT count(*) [{window}, WA t] FROM v").known == ("1 tuple a window",)


def test_tuples_are_followed_through_the_plan() -> None:
    made = database(TABLE)
    made.stream("r", TABLE, progress=ps.progress("t", delay=3))
    inner = "(SELECT k, t + 5 AS u FROM s WHERE k <> 'z') AS q"
    filtered = found(made, f"SELECT count(*) [RANGE 100, SLIDE 10, WA u] FROM {inner}")
    assert filtered.known == ("50 tuples a window before the filter",)
    both = found(made, "SELECT count(*) [RANGE 100, SLIDE 10, WA t] FROM s UNION r AS b")
    assert (both.known, both.disorder) == (("100 tuples a window",), 3)
    windows = "(SELECT window_id, count(*) AS n [RANGE 2, SLIDE 2] FROM s) AS q"
    above = found(made, f"SELECT max(n) [RANGE 4, SLIDE 2, WA window_id] FROM {windows}")
    assert (above.known, above.assumed) == ((), ("1 tuple a unit",))
