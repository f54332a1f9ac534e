"""Runs in process that go on from a checkpoint."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.local.checkpoint import Checkpoints
from tests.local.resumed import Part
from tests.waiting import LONGEST, wait_for

STREAM = "CREATE STREAM s (k STRING, v INT, t INT) FROM FILES 'data/*.csv' PROGRESS ON t DELAY 2;"
COUNTS = "SELECT k, count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k LATE SIDE"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def put(here: Path, name: str, *times: int, key: str = "a") -> None:
    text = "k,v,t\n" + "".join(f"{key},{t},{t}\n" for t in times)
    (here / "data" / f"{name}.csv").write_text(text)


def query(here: Path, sql: str = COUNTS, stream: str = STREAM, **options: Any) -> ps.Query:
    db = ps.connect(base=here, **options)
    db.sql(stream)
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def run(here: Path, sql: str = COUNTS, stream: str = STREAM, **options: Any) -> ps.Account:
    out = options.pop("out", here / "out.jsonl")
    late = options.pop("late", here / "late.jsonl")
    given = {"checkpoint": here / "checkpoint", **options}
    return query(here, sql, stream).run(out, late=late, **given)


def rows(here: Path, name: str = "out.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (here / name).read_text().splitlines()]


def ends(here: Path) -> dict[int, int]:
    return {row["window_end"]: row["n"] for row in rows(here)}


# --- again and again -----------------------------------------------------------------------------


def test_every_run_reads_what_is_new(here: Path) -> None:
    put(here, "1", *range(15))
    assert run(here) == ps.Account(15, 0, 0)
    assert ends(here) == {10: 10}
    assert run(here) == ps.Account(0, 0, 0)
    put(here, "2", *range(15, 35))
    assert run(here) == ps.Account(20, 0, 0)
    assert ends(here) == {10: 10, 20: 10, 30: 10}
    assert run(here, final=True) == ps.Account(0, 0, 0)
    assert ends(here) == {10: 10, 20: 10, 30: 10, 40: 5}


def test_after_a_final_run_what_was_closed_is_late(here: Path) -> None:
    put(here, "1", *range(15))
    run(here, final=True)
    assert ends(here) == {10: 10, 20: 5}
    put(here, "2", *range(15, 45))
    started = query(here).start(
        here / "out.jsonl", late=here / "late.jsonl", checkpoint=here / "checkpoint"
    )
    assert started.closed is not None
    assert "tuples of s below 24 are late" in started.closed
    assert started.wait() == ps.Account(30, 5, 0)
    assert started.total == ps.Account(45, 5, 0)
    assert ends(here) == {10: 10, 20: 5, 30: 10, 40: 10}
    assert [row["t"] for row in rows(here, "late.jsonl")] == [15, 16, 17, 18, 19]


def test_after_the_end_of_row_windows_nothing_follows(here: Path) -> None:
    put(here, "1", *range(15))
    sql = "SELECT count(*) AS n [RANGE 10 ROWS, SLIDE 10 ROWS, WA row-num] FROM s"
    run(here, sql)
    assert [row["n"] for row in rows(here)] == [10]
    run(here, sql, final=True)
    assert [row["n"] for row in rows(here)] == [10, 5]
    with pytest.raises(ps.CheckpointError, match="nothing can follow"):
        run(here, sql)


def test_a_file_that_grows(here: Path) -> None:
    put(here, "1", *range(15))
    run(here)
    with (here / "data" / "1.csv").open("a") as file:
        file.writelines(f"a,{t},{t}\n" for t in range(15, 35))
    assert run(here).read == 20
    assert ends(here) == {10: 10, 20: 10, 30: 10}


def test_a_last_line_that_is_not_complete(here: Path) -> None:
    """It waits, and is read as a whole once it has ended."""
    path = here / "data" / "1.csv"
    path.write_text("k,v,t\na,1,1\na,3,10")
    assert run(here, "SELECT v, t FROM s").read == 1
    with path.open("a") as file:
        file.write("0\na,4,10")
    assert run(here, "SELECT v, t FROM s").read == 1
    assert run(here, "SELECT v, t FROM s").read == 0
    assert [row["t"] for row in rows(here)] == [1, 100]
    assert run(here, "SELECT v, t FROM s", final=True).read == 1
    assert [row["t"] for row in rows(here)] == [1, 100, 10]


def test_without_a_checkpoint_a_last_line_counts(here: Path) -> None:
    (here / "data" / "1.csv").write_text("k,v,t\na,1,1\na,3,10")
    assert [row["t"] for row in query(here, "SELECT v, t FROM s")] == [1, 10]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_last_line_under_a_trigger(here: Path, kept: bool, ending: str) -> None:
    line = {"csv": "a,{t},{t}\n", "jsonl": '{{"k": "a", "v": {t}, "t": {t}}}\n'}[ending]
    path = here / "data" / f"1.{ending}"
    whole = line.format(t=1) + line.format(t=100)
    path.write_text("k,v,t\n" * (ending == "csv") + whole[:-4])
    found: list[Any] = []
    given: dict[str, Any] = {"checkpoint": here / "checkpoint"} if kept else {}
    started = query(here, "SELECT t FROM s", STREAM.replace("csv", ending)).start(
        found.append, trigger="10 milliseconds", rows=True, **given
    )
    wait_for(lambda: found)
    with path.open("a") as file:
        file.write(whole[-4:])
    wait_for(lambda: len(found) == 2)
    started.stop()
    assert [row["t"] for row in found] == [1, 100]


def test_a_file_that_goes_before_its_last_line_is_complete(here: Path) -> None:
    path = here / "data" / "1.csv"
    path.write_text("k,v,t\na,1,1\na,3,10")
    run(here)
    path.rename(here / "1.csv")
    put(here, "2", 3)
    with pytest.raises(ps.SourceError, match="has been read as far as row 1, and is gone"):
        run(here)


LOG = "CREATE STREAM s (k STRING, v INT, t INT) FROM FILES 'log.jsonl' PROGRESS ON t DELAY 2;"


def test_a_log_that_is_cut_in_the_middle_of_a_line(here: Path) -> None:
    lines = "".join(f'{{"k": "a", "v": {t}, "t": {t}}}\n' for t in range(30))
    bad = lines.replace('"v": 3,', '"v": "x",').replace('"v": 17,', '"v": "y",')
    aside = here / "rejected.jsonl"
    for size in (100, 307, 308, 309, len(bad)):
        (here / "log.jsonl").write_text(bad[:size])
        run(here, stream=LOG, rejected=aside)
    assert ends(here) == {10: 9, 20: 9}
    assert [row["row"] for row in rows(here, "rejected.jsonl")] == [4, 18]


def test_a_last_line_without_an_end(here: Path) -> None:
    (here / "log.jsonl").write_text('{"k": "a", "v": 1, "t": 50}')
    assert run(here, stream=LOG).read == 1
    with (here / "log.jsonl").open("a") as log:
        log.write('\n{"k": "a", "v": 1, "t": 70}\n{"k": "a", "v')
    assert run(here, stream=LOG).read == 1
    assert ends(here) == {60: 1}
    assert run(here, stream=LOG, final=True, rejected=here / "bad.jsonl") == ps.Account(1, 0, 1)


def test_row_numbers_of_rejects_go_on(here: Path) -> None:
    lines = ['{"k": "a", "v": "x", "t": 1}', '{"k": "a", "v": 1, "t": 2}']
    (here / "log.jsonl").write_text("\n".join(lines) + "\n")
    run(here, stream=LOG, rejected=here / "bad.jsonl")
    with (here / "log.jsonl").open("a") as log:
        log.write('{"k": "a", "v": 1, "t": 3}\n{"k": "a", "v": 1, "t": null}\n')
    run(here, stream=LOG, rejected=here / "bad.jsonl")
    assert [row["row"] for row in rows(here, "bad.jsonl")] == [1, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("a,3", "b,3"), "it does not begin as it did"),
        (lambda text: text[:-9], r"it had \d+ bytes"),
        (lambda text: "", r"it had \d+ bytes, and has 0"),
    ],
)
def test_a_file_that_has_changed(here: Path, change: Any, message: str) -> None:
    put(here, "1", *range(15))
    run(here)
    path = here / "data" / "1.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ps.SourceError, match=rf"1\.csv has changed since it was read: {message}"):
        run(here)


def test_a_row_that_went_on_after_it_was_read(here: Path) -> None:
    (here / "data" / "1.csv").write_text("k,v,t\na,1,1")
    run(here, final=True)
    (here / "data" / "1.csv").write_text("k,v,t\na,1,12\n")
    with pytest.raises(ps.SourceError, match="has changed"):
        run(here)


def test_files_may_go_when_they_have_been_read(here: Path) -> None:
    put(here, "1", *range(15))
    run(here)
    (here / "data" / "1.csv").unlink()
    assert run(here).read == 0
    put(here, "2", 30)
    run(here)
    assert ends(here) == {10: 10, 20: 5}


def test_files_as_sub_sources_do_not_hold_each_other_back(here: Path) -> None:
    stream = STREAM.replace(";", " PER FILE;")
    put(here, "1", *range(15))
    put(here, "2", *range(15), key="b")
    run(here, stream=stream)
    assert [(row["window_end"], row["k"], row["n"]) for row in rows(here)] == [
        (10, "a", 10),
        (10, "b", 10),
    ]
    put(here, "3", *range(15, 40), key="c")
    put(here, "4", *range(15, 40), key="d")  # not behind the other, but beside it
    assert run(here, stream=stream).late == 0
    assert [row["window_end"] for row in rows(here)] == [10, 10, 20, 20, 20, 20, 30, 30]


# --- data of the program -------------------------------------------------------------------------


def in_memory(here: Path, given: object, sql: str = COUNTS) -> ps.Query:
    db = ps.connect()
    schema = "k STRING, v INT, t INT"
    db.stream("s", given, schema=schema, progress=ps.progress("t", delay=2))
    found = db.sql(sql)
    assert isinstance(found, ps.Query)
    return found


def some(*times: int) -> list[dict[str, Any]]:
    return [{"k": "a", "v": t, "t": t} for t in times]


@pytest.mark.parametrize("kind", [list, iter])
def test_data_of_the_program_is_skipped(here: Path, kind: Any) -> None:
    for upto in (15, 15, 35):
        given = in_memory(here, kind(some(*range(upto))))
        given.run(here / "out.jsonl", checkpoint=here / "checkpoint")
    assert ends(here) == {10: 10, 20: 10, 30: 10}


@pytest.mark.parametrize("other", [some(*range(14)), some(99, *range(1, 30))])
def test_other_data_is_refused(here: Path, other: Any) -> None:
    in_memory(here, some(*range(15))).run(here / "out.jsonl", checkpoint=here / "checkpoint")
    with pytest.raises(ps.SourceError, match="the first 15 rows of MEMORY"):
        in_memory(here, other).run(here / "out.jsonl", checkpoint=here / "checkpoint")


# --- what may change, and what not ---------------------------------------------------------------


def test_what_does_not_change_the_meaning_may_change(here: Path) -> None:
    put(here, "1", *range(15))
    run(here)
    put(here, "2", *range(15, 35))
    other = "SELECT count(*) AS m, k AS key [RANGE 10, SLIDE 10, WA t] FROM s GROUP BY k LATE SIDE"
    run(here, other, STREAM.replace("DELAY 2", "DELAY 12"))
    assert [row.get("m", row.get("n")) for row in rows(here)] == [10, 10]


@pytest.mark.parametrize(
    ("sql", "stream", "message"),
    [
        (COUNTS.replace("count(*)", "count(v)"), STREAM, "belongs to another query"),
        (COUNTS.replace("RANGE 10", "RANGE 20"), STREAM, "belongs to another query"),
        (COUNTS, STREAM.replace("v INT", "v BIGINT"), "belongs to another query"),
    ],
)
def test_other_queries_are_refused(here: Path, sql: str, stream: str, message: str) -> None:
    put(here, "1", *range(15))
    run(here)
    before = (here / "out.jsonl").read_text()
    with pytest.raises(ps.CheckpointError, match=message):
        run(here, sql, stream)
    assert (here / "out.jsonl").read_text() == before


ALGORITHMS = ("PANED", "WID", "ADAPTIVE", "TWO_LEVEL", "BUFFERING")


@pytest.mark.parametrize("offset", range(1, 5))
def test_another_algorithm_goes_on(here: Path, offset: int) -> None:
    """From each to another one, with windows that are open and tuples that are late for some."""
    sql = COUNTS.replace("SLIDE 10", "SLIDE 3").replace("count(*)", "median(v)")
    for number in range(12):
        put(here, f"{number:02}", *(t for t in range(number * 7 + 9, number * 7 - 9, -4) if t >= 0))
        name = ALGORITHMS[number * offset % 5]
        run(here, sql.replace("SELECT", f"SELECT /*+ {name} */"), final=number == 11)
    run(here, sql, out=here / "1.jsonl", late=here / "2.jsonl", checkpoint=None, final=True)
    for found, expected in (("out.jsonl", "1.jsonl"), ("late.jsonl", "2.jsonl")):
        lines = [(here / name).read_text().splitlines() for name in (found, expected)]
        assert lines[0]
        assert sorted(lines[0]) == sorted(lines[1])


def test_the_state_is_that_of_the_new_algorithm(here: Path) -> None:
    put(here, "1", *range(15))
    run(here, COUNTS.replace("SELECT", "SELECT /*+ BUFFERING */"))
    put(here, "2", *range(15, 18))
    run(here, COUNTS.replace("SELECT", "SELECT /*+ PANED */"))
    store = Checkpoints(here / "checkpoint")
    names = [name for name in store.names() if name.startswith("operators/")]
    store.close()
    assert any("/panes/" in name for name in names)
    assert not any("/rows/" in name for name in names)


def test_a_run_that_is_killed_leaves_the_state_as_it_was(here: Path) -> None:
    wid, paned = (COUNTS.replace("SELECT", f"SELECT /*+ {n} */") for n in ("WID", "PANED"))
    put(here, "1", *range(15))
    run(here, wid)
    put(here, "2", *range(15, 35))
    store = Checkpoints(here / "checkpoint")
    Part(query(here, paned).plan, store)  # and the process is killed
    store.close()
    run(here, wid)
    assert ends(here) == {10: 10, 20: 10, 30: 10}


def test_a_checkpoint_that_was_moved_or_copied(here: Path) -> None:
    put(here, "1", *range(15))
    run(here)
    shutil.copytree(here / "checkpoint", here / "copy")
    shutil.rmtree(here / "checkpoint")
    put(here, "2", *range(15, 35))
    run(here, checkpoint=here / "copy")
    assert ends(here) == {10: 10, 20: 10, 30: 10}


def test_an_older_copy_of_the_checkpoint(here: Path) -> None:
    put(here, "1", *range(15))
    run(here)
    shutil.copy(here / "checkpoint" / "state.sqlite", here / "old.sqlite")
    for number in range(2, 6):
        put(here, f"{number}", number * 100)
        run(here)
    shutil.copy(here / "old.sqlite", here / "checkpoint" / "state.sqlite")
    with pytest.raises(ps.SinkError, match="is ahead of the checkpoint"):
        run(here)


def test_the_checkpoint_is_in_use(here: Path) -> None:
    put(here, "1", *range(15))
    started = query(here).start(
        here / "out.jsonl", checkpoint=here / "checkpoint", trigger="50 milliseconds"
    )
    with pytest.raises(ps.CheckpointError, match="is in use by another run"):
        run(here, out=here / "other.jsonl")
    started.stop()
    started.wait()
    run(here)
    assert ends(here) == {10: 10}


def test_engines_and_places_that_keep_nothing(here: Path) -> None:
    put(here, "1", 1)
    with pytest.raises(ps.SinkError, match="standard output cannot be gone on with"):
        run(here, out=None)
    with pytest.raises(ps.EngineError, match="the reference engine runs once"):
        query(here, engine="reference").run(here / "out.jsonl", checkpoint=here / "checkpoint")
    with pytest.raises(ps.EngineError, match="is never final"):
        run(here, final=True, trigger="5 seconds")


# --- beside the program --------------------------------------------------------------------------


def test_files_are_followed(here: Path) -> None:
    put(here, "1", *range(15))
    came = threading.Event()
    seen: list[int] = []

    def take(row: dict[str, Any]) -> None:
        seen.append(row["window_end"])
        came.set()

    started = query(here).start(take, rows=True, trigger="20 milliseconds")
    assert came.wait(LONGEST)
    assert started.active
    came.clear()
    put(here, "2", *range(15, 25))
    assert came.wait(LONGEST)
    progress = started.progress()
    assert (progress.read, progress.rows, progress.open_windows) == (25, 2, 1)
    assert progress.sources[0].low_text == "22"
    assert "stream s waits for its only source" in started.explain_stall()
    started.stop()
    assert started.wait() == ps.Account(25, 0, 0)
    assert seen == [10, 20]
    assert not started.active


def test_a_source_that_is_idle_while_files_are_followed(here: Path) -> None:
    put(here, "1", *range(15))
    stream = "CREATE STREAM s (k STRING, v INT, t TIMESTAMP) FROM FILES 'data/*.csv'"
    stream += " PROGRESS ON t DELAY 1 SECOND IDLE AFTER 50 MILLISECONDS;"
    (here / "data" / "1.csv").write_text("k,v,t\na,1,2026-01-31 12:00:00\n")
    came = threading.Event()
    sql = "SELECT count(*) AS n [RANGE TUMBLING 10 MILLISECONDS, WA t] FROM s"
    started = query(here, sql, stream).start(
        lambda _: came.set(), rows=True, trigger="20 milliseconds"
    )
    assert came.wait(LONGEST)
    started.stop()
    assert started.wait().read == 1


def test_files_that_are_followed_apart(here: Path) -> None:
    """One that has been read to its end is neither waited for nor silent."""
    stream = "CREATE STREAM s (k STRING, v INT, t TIMESTAMP) FROM FILES 'data/*.csv'"
    stream += " PROGRESS ON t DELAY 1 SECOND PER FILE IDLE AFTER 50 MILLISECONDS;"
    for number in range(3):
        text = f"k,v,t\na,1,2026-01-31 12:00:0{number}\n"
        (here / "data" / f"{number}.csv").write_text(text)
    came = threading.Event()
    seen: list[int] = []

    def take(row: dict[str, Any]) -> None:
        seen.append(row["n"])
        if len(seen) == 3:
            came.set()

    sql = "SELECT count(*) AS n [RANGE TUMBLING 10 MILLISECONDS, WA t] FROM s"
    started = query(here, sql, stream).start(take, rows=True, trigger="20 milliseconds")
    assert came.wait(LONGEST)
    started.stop()
    assert started.wait() == ps.Account(3, 0, 0)


def test_a_failure_comes_out_where_somebody_waits(here: Path) -> None:
    put(here, "1", 1)
    sql = "SELECT CAST(k AS INT) AS n FROM s"
    started = query(here, sql).start(lambda batch: None, checkpoint=here / "checkpoint")
    with pytest.raises(ps.RunError):
        started.wait()
    assert not started.active
    put(here, "1", 1, key="7")  # nothing was kept of the run that failed
    run(here, sql)
    assert rows(here) == [{"n": 7}]


def test_several_queries_on_one_checkpoint(here: Path) -> None:
    for name, *times in ((1, 0, 5, 15), (2, 25, 45)):
        put(here, f"{name}", *times)
        db = ps.connect(base=here)
        db.sql(STREAM)
        queries = [db.sql(COUNTS), db.sql("SELECT max(v) AS n [RANGE 20, SLIDE 20, WA t] FROM s")]
        sinks = [here / "one.jsonl", here / "other.csv"]
        db.run(queries, sinks, checkpoint=here / "checkpoint")  # type: ignore[arg-type]
    assert [row["n"] for row in rows(here, "one.jsonl")] == [2, 1, 1]
    assert (here / "other.csv").read_text().splitlines()[1:] == ["0,20,15", "20,40,25"]
