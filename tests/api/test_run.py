"""`query.run`: rows go to functions, files or standard output while they are released."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

ROWS = [{"k": "a", "t": 1}, {"k": "b", "t": 12}, {"k": "c", "t": 3}]


@pytest.fixture(params=["local", "reference"])
def db(request: pytest.FixtureRequest) -> ps.Database:
    made = ps.connect(request.param)
    made.stream("s", ROWS, progress=ps.progress("t", ordered=True))
    return made


def ask(db: ps.Database, sql: str = "SELECT k, t FROM s") -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


COUNT = "SELECT count(*) AS n [RANGE 10, SLIDE 10, WA t] FROM s"


def test_a_function_gets_batches(db: ps.Database) -> None:
    batches: list[pa.RecordBatch] = []
    account = ask(db).run(batches.append)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert pa.Table.from_batches(batches).to_pylist() == ROWS
    assert (account.read, account.late, account.rejected) == (3, 0, 0)


def test_a_function_gets_rows_if_it_asks_for_them(db: ps.Database) -> None:
    rows: list[dict[str, Any]] = []
    ask(db).run(rows.append, rows=True)
    assert rows == ROWS


def test_the_account_of_a_run(db: ps.Database) -> None:
    query = ask(db, COUNT)
    late: list[dict[str, Any]] = []
    account = query.run(lambda row: None, late=late.append, rows=True)
    assert account.late == query.account.late == 1
    assert [(row["k"], row["late_bound"]) for row in late] == [("c", 12)]


def test_a_query_can_be_run_again(db: ps.Database) -> None:
    query = ask(db, COUNT)
    first: list[Any] = []
    second: list[Any] = []
    query.run(first.append, rows=True)
    query.run(second.append, rows=True)
    assert first == second == query.collect().to_pylist()


def boom(batch: pa.RecordBatch) -> None:
    raise ValueError("no room")


def test_a_function_that_fails(db: ps.Database) -> None:
    message = "the callback boom failed: ValueError: no room"
    with pytest.raises(ps.RunError, match=message) as caught:
        ask(db).run(boom)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ps.RunError, match="the callback boom failed"):
        ask(db, COUNT).run(print, late=boom)


def test_files_by_their_names(db: ps.Database, tmp_path: Path) -> None:
    for ending in ("jsonl", "csv", "parquet", "txt"):
        ask(db).run(tmp_path / f"rows.{ending}")
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    assert (tmp_path / "rows.csv").read_text() == "k,t\na,1\nb,12\nc,3\n"
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == ROWS
    assert (tmp_path / "rows.txt").read_text().endswith("(3 rows)\n")
    ask(db).run(str(tmp_path / "again.csv"))
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "rows.csv").read_text()


def test_a_failure_leaves_no_file(db: ps.Database, tmp_path: Path) -> None:
    with pytest.raises(ps.RunError):
        ask(db, "SELECT CAST(k AS INT) AS n FROM s").run(tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []


def test_standard_output(db: ps.Database, capsys: pytest.CaptureFixture[str]) -> None:
    ask(db).run()
    assert capsys.readouterr().out == "k   t\n─  ──\na   1\nb  12\nc   3\n(3 rows)\n"


def test_what_is_not_a_sink(db: ps.Database) -> None:
    with pytest.raises(ps.SinkError, match="a int is not a sink"):
        ask(db).run(7)  # type: ignore[arg-type]
    with pytest.raises(ps.SinkError, match=r"the ending of rows\.xls does not tell a format"):
        ask(db).run("rows.xls")


class Own:
    """A sink of the program's own."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self, schema: pa.Schema) -> None:
        self.calls.append(f"begin {schema.names}")

    def write(self, batch: pa.RecordBatch) -> None:
        self.calls.append(f"write {batch.num_rows}")

    def flush(self) -> None:
        self.calls.append("flush")

    def end(self) -> None:
        self.calls.append("end")


def test_an_own_sink(db: ps.Database) -> None:
    sink = Own()
    ask(db).run(sink)
    assert sink.calls == ["begin ['k', 't']", "write 3", "end"]


def test_no_rows_at_all(db: ps.Database) -> None:
    sink = Own()
    ask(db, "SELECT k FROM s WHERE t > 99").run(sink)
    assert sink.calls == ["begin ['k']", "end"]


def test_several_queries_in_one_pass(db: ps.Database, tmp_path: Path) -> None:
    rows: list[Any] = []
    accounts = db.run([ask(db), ask(db, COUNT)], [rows.append, tmp_path / "n.jsonl"], rows=True)
    assert rows == ROWS
    assert len((tmp_path / "n.jsonl").read_text().splitlines()) == 2
    assert [account.late for account in accounts] == [0, 1]


def test_rows_of_a_slow_generator_do_not_wait_for_a_full_batch() -> None:
    """The generator makes the next row only after the answer to the last one is there."""
    seen: list[int] = []
    waited: list[list[int]] = []

    def slow() -> Iterator[dict[str, int]]:
        for t in range(4):
            time.sleep(0.05)  # slowly is what it is about: nothing is waited for
            waited.append(list(seen))
            yield {"t": t}

    db = ps.connect()
    db.stream("s", slow(), schema="t INT")
    ask(db, "SELECT t FROM s").run(lambda row: seen.append(row["t"]), rows=True)
    assert seen == [0, 1, 2, 3]
    assert waited == [[], [0], [0, 1], [0, 1, 2]]


def test_who_is_handed_rows_cannot_wait_for_his_query_but_may_stop_it() -> None:
    db = ps.connect("local")
    db.stream("s", ((t,) for t in itertools.count()), schema="t INT")
    here, refused = threading.Event(), []

    def take(_: dict[str, Any]) -> None:
        here.wait()
        with pytest.raises(ps.EngineError, match="cannot wait for its query") as caught:
            started.wait()
        refused.append(caught.value)
        started.stop()

    started = ask(db, "SELECT t FROM s").start(take, rows=True)
    here.set()
    assert started.wait().read > 0
    assert refused
