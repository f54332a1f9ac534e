"""Where progress comes from: stamps of the clock, limits on it, NULLs, punctuations, files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from tests.reference.helpers import Row, Stream, ask, bag, database, tuples

SECOND = 1_000_000
HOUR = 3600 * SECOND


def stamped(kind: str, sql: str, clock: ps.ManualClock, rows: list[Row]) -> ps.Query:
    promise = ps.progress("ts", timestamps=kind)
    db = database(clock, s=Stream("n INT, ts TIMESTAMP", rows, promise))
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


# --- INTERNAL and LATENT -------------------------------------------------------------------------


def test_internal_stamps_every_tuple_that_enters() -> None:
    clock = ps.ManualClock(at=100, step=10)
    query = stamped("INTERNAL", "SELECT n, ts FROM s WHERE n <> 1", clock, [(0,), (1,), (2,)])
    assert tuples(query.collect()) == [(0, 100), (2, 120)]


def test_latent_stamps_what_passes_the_filter() -> None:
    clock = ps.ManualClock(at=100, step=10)
    query = stamped("LATENT", "SELECT n, ts FROM s WHERE n <> 1", clock, [(0,), (1,), (2,)])
    assert tuples(query.collect()) == [(0, 100), (2, 110)]


def test_latent_stamps_can_be_filtered_by() -> None:
    """The conditions on other columns come before the stamp, those on the stamp after it."""
    clock = ps.ManualClock(at=0, step=10)
    where = "WHERE n <> 1 AND epoch_us(ts) > 0"
    query = stamped("LATENT", f"SELECT n, ts FROM s {where}", clock, [(0,), (1,), (2,), (3,)])
    assert tuples(query.collect()) == [(2, 10), (3, 20)]


@pytest.mark.parametrize("kind", ["INTERNAL", "LATENT"])
def test_windows_over_stamps(kind: str) -> None:
    """Three tuples a window, and never a late one."""
    clock = ps.ManualClock(at=-4 * SECOND, step=SECOND)
    query = stamped(
        kind,
        "SELECT window_id, sum(n) [RANGE 3 SECONDS, SLIDE 3 SECONDS, WA ts] FROM s",
        clock,
        [(1 << n,) for n in range(7)],
    )
    assert tuples(query.collect()) == [(-2, 1), (-1, 2 + 4 + 8), (0, 16 + 32 + 64)]
    assert query.account == type(query.account)(read=7, late=0, rejected=0)


@pytest.mark.parametrize("kind", ["INTERNAL", "LATENT"])
def test_a_clock_that_stands_still(kind: str) -> None:
    query = stamped(kind, "SELECT ts, count(*) FROM s GROUP BY ts", ps.ManualClock(7), [(1,), (2,)])
    assert tuples(query.collect()) == [(7, 2)]


@pytest.mark.parametrize("kind", ["INTERNAL", "LATENT"])
def test_each_run_reads_the_clock_anew(kind: str) -> None:
    clock = ps.ManualClock(at=0, step=1)
    db = database(
        clock, s=Stream("n INT, ts TIMESTAMP", [(0,)], ps.progress("ts", timestamps=kind))
    )
    query = db.sql("SELECT ts FROM s")
    assert tuples(query.collect()) == tuples(query.collect()) == [(0,)]  # one run
    clock.advance(100)
    assert tuples(db.sql("SELECT ts FROM s").collect()) == [(101,)]


def test_stamps_in_joins() -> None:
    """The left side is stamped 0, 1, 2, then the right side 3, 4, 5."""
    promise = ps.progress("ts", timestamps="LATENT")
    rows = [(0,), (1,), (2,)]
    db = database(
        ps.ManualClock(at=0, step=1),
        a=Stream("n INT, ts TIMESTAMP", rows, promise),
        b=Stream("n INT, ts TIMESTAMP", rows, promise),
    )
    query = db.sql(
        "SELECT a.n, b.n FROM a [RANGE 2 MICROSECONDS, WA ts], b [RANGE 0 SECONDS, WA ts]"
    )
    assert bag(tuples(query.collect())) == bag([(1, 0), (2, 0), (2, 1)])


def test_the_stamped_column_may_stand_anywhere() -> None:
    db = database(
        ps.ManualClock(at=5),
        s=Stream("ts TIMESTAMP, n INT", [(1,)], ps.progress("ts", timestamps="INTERNAL")),
    )
    assert tuples(db.sql("SELECT * FROM s").collect()) == [(5, 1)]


def test_a_stamped_column_need_not_be_declared() -> None:
    db = ps.connect("reference", clock=ps.ManualClock(at=5))
    db.stream("s", [{"n": 1}], progress=ps.progress("ts", timestamps="INTERNAL"))
    assert tuples(db.sql("SELECT n, ts FROM s").collect()) == [(1, 5)]


@pytest.mark.parametrize("kind", ["INTERNAL", "LATENT"])
def test_stamps_are_ordered_and_times(kind: str) -> None:
    db = ps.connect("reference")
    with pytest.raises(ps.PenstockError, match="ORDERED"):
        db.stream("s", [{"n": 1}], progress=ps.progress("ts", timestamps=kind, delay="1 second"))
    with pytest.raises(ps.BindError, match="TIMESTAMP"):
        db.stream("s", [(1,)], schema="n INT, ts INT", progress=ps.progress("ts", timestamps=kind))


# --- FUTURE LIMIT --------------------------------------------------------------------------------


def test_tuples_from_the_future_are_kept_aside() -> None:
    """At the limit is in time, one tick further is not; the bound does not move for those."""
    rows = [("a", 0), ("b", HOUR + 1), ("c", HOUR), ("d", 5 * HOUR), ("e", HOUR)]
    promise = ps.progress("ts", ordered=True, future_limit="1 hour")
    db = database(ps.ManualClock(at=0), s=Stream("n STRING, ts TIMESTAMP", rows, promise))
    query = db.sql("SELECT n, ts FROM s GROUP BY n, ts")
    assert [n for n, _ in tuples(query.collect())] == ["a", "c", "e"]
    assert query.account.late == 0
    assert query.account.rejected == 2
    assert query.rejected.column("kind").to_pylist() == ["too far in the future"] * 2
    assert query.rejected.column("row").to_pylist() == [2, 4]
    assert query.rejected.column("column").to_pylist() == ["ts", "ts"]


def test_the_limit_moves_with_the_clock() -> None:
    """The clock is read once for each tuple."""
    promise = ps.progress("ts", ordered=True, future_limit="1 second")
    rows = [(SECOND + 1,), (2 * SECOND,), (3 * SECOND,), (5 * SECOND,)]
    db = database(ps.ManualClock(at=0, step=SECOND), s=Stream("ts TIMESTAMP", rows, promise))
    query = db.sql("SELECT ts FROM s")
    assert tuples(query.collect()) == [(2 * SECOND,), (3 * SECOND,)]


def test_strict_runs_end_at_the_first_reject() -> None:
    db = ps.connect("reference", clock=ps.ManualClock(at=0), strict=True)
    promise = ps.progress("ts", ordered=True, future_limit="1 second")
    db.stream("s", [(HOUR,)], schema="ts TIMESTAMP EPOCH MICROSECONDS", progress=promise)
    with pytest.raises(ps.SourceError, match="ahead of the clock"):
        db.sql("SELECT ts FROM s").collect()


def test_only_times_can_be_in_the_future() -> None:
    with pytest.raises(ps.BindError):
        database(s=Stream("t INT", [], ps.progress("t", ordered=True, future_limit="1 hour")))


# --- NULLs and punctuations ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [{"ordered": True}, {"delay": 3}, {"slack": 1}, {"punctuated": ("n < 0", "t")}]
)
def test_null_in_the_progressing_column(rule: dict[str, Any]) -> None:
    rows = [(1, 10), (2, None), (3, 11), (4, None)]
    query = ask("SELECT n FROM s", s=Stream("n INT, t INT", rows, ps.progress("t", **rule)))
    assert tuples(query.collect()) == [(1,), (3,)]
    assert query.rejected.column("row").to_pylist() == [2, 4]
    assert query.rejected.column("kind").to_pylist() == ["no progress value"] * 2
    assert query.rejected.column("reason").to_pylist() == ["t is NULL"] * 2
    assert query.account == type(query.account)(read=4, late=0, rejected=2)


def test_null_is_no_row_that_slack_counts() -> None:
    """Between 5 and 3 there is one row that counts: with SLACK 2 the 3 is still in time."""
    rows = [(5,), (None,), (4,), (None,), (3,)]
    query = ask("SELECT t FROM s GROUP BY t", s=Stream("t INT", rows, ps.progress("t", slack=2)))
    assert query.account.late == 0


def test_without_progress_nulls_are_values() -> None:
    query = ask("SELECT t FROM s", s=Stream("t INT", [(None,), (1,)]))
    assert tuples(query.collect()) == [(None,), (1,)]


def test_punctuations_are_not_tuples() -> None:
    rows = [("d", 5), ("p", 4), ("d", 3), ("p", None), ("d", 4), (None, 4)]
    query = ask(
        "SELECT kind, t, count(*) FROM s GROUP BY kind, t",
        s=Stream("kind STRING, t INT", rows, ps.progress("t", punctuated=("kind = 'p'", "t"))),
    )
    assert bag(tuples(query.collect())) == bag([("d", 5, 1), ("d", 4, 1), (None, 4, 1)])
    assert tuples(query.late) == [("d", 3, 4, None, None)]
    assert query.rejected.column("reason").to_pylist() == ["a punctuation without a bound"]


def test_a_punctuation_may_be_null_elsewhere() -> None:
    """Its bound is an expression: the progressing column of the row does not matter."""
    rows = [(1, None), (None, 7), (6, None), (8, None)]
    query = ask(
        "SELECT t FROM s GROUP BY t",
        s=Stream("t INT, mark INT", rows, ps.progress("t", punctuated=("t IS NULL", "mark"))),
    )
    assert [t for (t,) in tuples(query.collect())] == [1, 8]
    assert query.account.rejected == 0


def test_bounds_never_move_back() -> None:
    rows = [("p", 9), ("p", 2), ("d", 5)]
    query = ask(
        "SELECT t FROM s GROUP BY t",
        s=Stream("kind STRING, t INT", rows, ps.progress("t", punctuated=("kind = 'p'", "t"))),
    )
    assert tuples(query.late) == [("d", 5, 9, None, None)]


def test_sub_sources_by_an_expression() -> None:
    """A and a are the same sub-source, so the second tuple is late; b is another one."""
    rows = [("B", 2), ("A", 9), ("a", 8), ("b", 3)]
    query = ask(
        "SELECT k, t FROM s GROUP BY k, t",
        s=Stream("k STRING, t INT", rows, ps.progress("t", ordered=True, per="upper(k)")),
    )
    assert tuples(query.late) == [("a", 8, 9, None, None)]


# --- files ---------------------------------------------------------------------------------------


def write(folder: Path, name: str, times: list[Any]) -> None:
    (folder / name).write_text("t\n" + "".join(f"{t}\n" for t in times), encoding="utf-8")


def read(folder: Path, progress: str) -> ps.Query:
    db = ps.connect("reference", base=folder)
    db.sql(f"CREATE STREAM s (t INT) FROM FILES '*.csv' PROGRESS ON t {progress}")
    query = db.sql("SELECT t, count(*) FROM s GROUP BY t")
    assert isinstance(query, ps.Query)
    return query


def test_per_file(tmp_path: Path) -> None:
    """Both files are known from the start, so each promises for itself."""
    write(tmp_path, "a.csv", [10, 30, 20])
    write(tmp_path, "b.csv", [1, 3, 2, 40])
    query = read(tmp_path, "ORDERED PER FILE")
    assert tuples(query.collect()) == [(1, 1), (3, 1), (10, 1), (30, 1), (40, 1)]
    assert tuples(query.late) == [(20, 30, None, None), (2, 3, None, None)]


def test_one_after_the_other(tmp_path: Path) -> None:
    """Without PER FILE the second file is late against the first."""
    write(tmp_path, "a.csv", [10, 30])
    write(tmp_path, "b.csv", [1, 40])
    query = read(tmp_path, "ORDERED")
    assert tuples(query.late) == [(1, 30, None, None)]


def test_rejects_name_the_file(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", [1, "x"])
    write(tmp_path, "b.csv", [2, '""', 3])
    query = read(tmp_path, "ORDERED PER FILE")
    found = [(row["source"], row["row"], row["kind"]) for row in query.rejected.to_pylist()]
    assert found == [("a.csv", 2, "bad row"), ("b.csv", 2, "no progress value")]


# --- how times may be given ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    [
        SECOND,
        datetime(1970, 1, 1, 0, 0, 1),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "1970-01-01T00:00:01Z",
        "1970-01-01 01:00:01+01:00",
    ],
    ids=str,
)
@pytest.mark.parametrize("delay", ["1 second", timedelta(seconds=1), "1000 ms"], ids=str)
def test_times_and_lengths(moment: Any, delay: Any) -> None:
    """A tuple as far behind as the delay is in time, a microsecond further is late."""
    rows = [(moment,), (0,), (-1,)]
    query = ask(
        "SELECT ts FROM s GROUP BY ts",
        s=Stream("ts TIMESTAMP", rows, ps.progress("ts", delay=delay)),
    )
    assert tuples(query.collect()) == [(0,), (SECOND,)]
    assert tuples(query.late) == [(-1, 0, None, None)]
