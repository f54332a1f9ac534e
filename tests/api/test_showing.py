"""What people see of queries and runs: tables, notebooks, frames, and what objects look like."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from tests.waiting import LONGEST, wait_for

STREAM = "CREATE STREAM s (k STRING, t INT) FROM VALUES ('a', 1), ('b', 3) PROGRESS ON t ORDERED"
COUNT = "SELECT k, count(*) AS n [RANGE 2, SLIDE 2, WA t] FROM s GROUP BY k"


def ask(db: ps.Database, sql: str) -> ps.Query:
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    return query


@pytest.fixture
def query() -> ps.Query:
    return ask(ps.connect(), f"{STREAM};\n{COUNT} LATE SIDE;")


def endless() -> Iterator[dict[str, Any]]:
    for number in itertools.count():
        yield {"k": "<a>", "t": number}


@pytest.fixture
def going_on() -> ps.Query:
    db = ps.connect()
    db.stream("s", endless, schema="k STRING, t INT", progress=ps.progress("t", ordered=True))
    return ask(db, COUNT + " HAVING count(*) <> 0 AND k <> '<b>'")


# --- queries -------------------------------------------------------------------------------------


def test_the_first_rows_are_shown_as_the_command_shows_them(
    query: ps.Query, capsys: pytest.CaptureFixture[str]
) -> None:
    query.show()
    table = capsys.readouterr().out
    assert table.splitlines() == [
        "window_start  window_end  k  n",
        "────────────  ──────────  ─  ─",
        "           0           2  a  1",
        "           2           4  b  1",
        "(2 rows)",
    ]
    query.collect()
    query.show()
    assert capsys.readouterr().out == table
    query.show(1)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "           0           2  a  1",
        "(1 row)",
        "there are more",
    ]


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_an_answer_without_rows_is_shown(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    db = ps.connect(engine)
    db.sql(STREAM)
    ask(db, "SELECT k FROM s WHERE t > 9").show()
    assert capsys.readouterr().out.splitlines() == ["k", "─", "(0 rows)"]


def test_rows_of_a_stream_that_goes_on(
    going_on: ps.Query, capsys: pytest.CaptureFixture[str]
) -> None:
    going_on.show(3)
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2:] == ["(3 rows)", "there may be more"]
    assert len(shown) == 2 + 3 + 2
    going_on.show(0)
    assert capsys.readouterr().out.splitlines()[-2:] == ["(0 rows)", "there may be more"]
    going_on.show(1)
    assert going_on.account.read > 0


def test_a_notebook_runs_nothing(going_on: ps.Query) -> None:
    html = going_on._repr_html_()
    assert "<td>window_start</td><td>BIGINT</td>" in html
    assert "HAVING count(*) &lt;&gt; 0 AND k &lt;&gt; &#x27;&lt;b&gt;&#x27;" in html
    assert "on local" in html


def test_a_notebook_shows_the_query_and_not_the_script(query: ps.Query) -> None:
    assert f"<pre>{COUNT.replace('>', '&gt;')} LATE SIDE</pre>" in query._repr_html_()


def test_a_query_with_a_name_in_a_notebook() -> None:
    db = ps.connect()
    db.sql(f"{STREAM}; CREATE QUERY counts AS {COUNT}")
    html = db.query("counts")._repr_html_()
    assert "penstock.Query counts on local" in html
    assert "<pre>" not in html


def test_frames(query: ps.Query) -> None:
    rows = query.collect().to_pylist()
    assert isinstance(query.to_pandas(), pd.DataFrame)
    assert query.to_pandas().to_dict("records") == rows
    assert isinstance(query.to_polars(), pl.DataFrame)
    assert query.to_polars().to_dicts() == rows


class WithoutPandas:
    """What an Arrow table does in a process that has none."""

    def to_pandas(self) -> None:
        raise ModuleNotFoundError("No module named 'pandas'")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there(
    query: ps.Query, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(query, "collect", WithoutPandas)
    with pytest.raises(ps.PenstockError, match=f"to_{library} needs {library}") as caught:
        getattr(query, f"to_{library}")()
    assert f"pip install {library}" in (caught.value.hint or "")


# --- runs beside the program ---------------------------------------------------------------------


def devices(go_on: threading.Event, seen: threading.Event) -> Iterator[pa.RecordBatch]:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for device, seconds in (("d0", 5), ("d1", 7), ("d0", 6), ("d1", 40)):
        row = {"device": device, "ts": noon + timedelta(seconds=seconds)}
        yield pa.RecordBatch.from_pylist([row])
    seen.set()
    go_on.wait(LONGEST)


def test_a_run_and_its_progress() -> None:
    go_on, seen = threading.Event(), threading.Event()
    db = ps.connect()
    db.stream(
        "packets",
        lambda: devices(go_on, seen),
        schema="device STRING, ts TIMESTAMP",
        progress=ps.progress("ts", ordered=True, per="device"),
    )
    counts = "SELECT count(*) AS n [RANGE 2 SECONDS, SLIDE 2 SECONDS, WA ts] FROM packets"
    db.sql(f"CREATE QUERY counts AS {counts}")
    started = db.query("counts").start(lambda batch: None)
    assert seen.wait(LONGEST)
    # a row is counted before it is known how far it has brought its source
    wait_for(lambda: "highest 2026-01-31T12:00:40" in str(started.progress()))
    assert repr(started) == "<penstock.StartedQuery 'counts' on local, running, 4 rows read>"
    (source,) = started.progress().sources
    assert str(source) == (
        "packets up to 2026-01-31T12:00:06.000000Z, highest 2026-01-31T12:00:40.000000Z,"
        " waits for d0"
    )
    assert "stream packets waits for d0, which is 34 SECONDS behind" in started.explain_stall()
    go_on.set()
    started.wait()
    assert repr(started) == "<penstock.StartedQuery 'counts' on local, ended, 4 rows read>"
    told = repr(started.progress())
    assert told.startswith("<penstock.RunProgress 4 read at ")
    assert "0 rejected, 0 open, state 0.0 MB, latency median " in told
    assert told.endswith("; packets has ended>")


def test_a_run_without_a_name_shows_its_text(query: ps.Query) -> None:
    started = query.start(lambda batch: None)
    started.wait()
    assert repr(started).startswith(f"<penstock.StartedQuery '{COUNT[:40]}")
    assert " …' on local, ended, 2 rows read>" in repr(started)
