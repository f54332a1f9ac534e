"""EXPLAIN ANALYZE: what was measured of a plan, beside what was expected."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.cli.main import app
from penstock.errors import EngineError
from penstock.local.analysis import analyze
from penstock.local.graph_options import Scheduling
from penstock.model.clock import ManualClock
from penstock.runs.run_options import Adaptation
from tests.planning import in_process

JOIN = (
    "SELECT a.t, b.t, c.t FROM a [RANGE 5, WA t], b [RANGE 5, WA t], c [RANGE 5, WA t]"
    " WHERE a.k = b.k AND b.k = c.k AND a.n < 60"
)


def database() -> ps.Database:
    db = ps.connect("local")
    for name, rows in (("a", 100), ("b", 50), ("c", 20)):
        table = pa.table(
            {
                "k": [number % 4 for number in range(rows)],
                "n": list(range(rows)),
                "t": [number * 100 // rows for number in range(rows)],
            }
        )
        db.stream(name, table.to_batches(max_chunksize=10), progress=ps.progress("t", delay=2))
    return db


def asked(sql: str, db: ps.Database | None = None) -> ps.Query:
    found = (db or database()).sql(sql)
    assert isinstance(found, ps.Query)
    return found


def without_times(text: str) -> str:
    """Times and sizes are not the same twice."""
    text = re.sub(r"[\d.,]+ (ns|µs|ms|s|B|kB|MB)\b", "#", text)
    return re.sub(r"in \d+ looks?", "in # looks", text)


def test_rows_and_selectivities_are_those_of_the_run() -> None:
    query = asked(JOIN)
    told = without_times(query.explain(analyze=True))
    rows = query.collect().num_rows
    assert rows > 0
    assert "Filter (a.n < 60)\n" in told
    assert "measured: 100 in, 60 out, f = 0.6, τ = #\n" in told
    assert "expected: 100 in, 60 out, f = 0.6, τ = #\n" in told
    assert f"measured: 130 in, {rows} out, f = {rows / 130:.3g}, τ = #, kept " in told
    assert f"170 rows read, {rows} written, 0 late, 0 rejected, in #\n" in told
    assert "measured: 50 rows; expected 50\n" in told
    for name, others in (("a", "bc"), ("b", "ac"), ("c", "ab")):
        (line,) = re.findall(rf"δ_{name} : .*\n.*", told)
        assert all(f"(w_{other})" in line for other in others)
        assert line.endswith("  T = # a tuple; expected #")
    assert told.endswith("Changes of the plan: 0, in # looks")


PARTS = (  # each asks for the counts twice
    "SELECT x.n FROM v AS x, v AS y WHERE x.e = y.e - 4 AND x.k = y.k",
    "SELECT n FROM v UNION ALL SELECT n FROM v WHERE n > 1",
    "SELECT n FROM v UNION ALL SELECT max(n) AS n FROM w GROUP BY e",
)


@pytest.mark.parametrize("sql", PARTS)
def test_what_is_computed_once_is_measured_once(sql: str) -> None:
    """It is shown wherever it is asked for."""
    db = database()
    counts = "SELECT k, window_end AS e, count(*) AS n [RANGE 4, SLIDE 4, WA t]"
    db.sql(f"CREATE VIEW v AS {counts} FROM a GROUP BY k")
    db.sql("CREATE VIEW w AS SELECT e, n FROM v WHERE k = 1")
    told = asked(sql, db).explain(analyze=True)
    assert told.count("measured: 100 rows; expected 100\n") == 2
    shown = re.findall(r"Paned: WindowAggregate count.*?measured: (.*?)\n", told, re.DOTALL)
    assert len(shown) == 2
    assert len(set(shown)) == 1
    assert "100 rows read, " in told


def test_what_is_not_known_is_not_said() -> None:
    db = ps.connect("local")
    rows = [{"k": 1, "t": number} for number in range(20)]
    db.stream("s", lambda: iter(rows), schema="k INT, t INT", progress=ps.progress("t", delay=0))
    told = db.sql("EXPLAIN ANALYZE SELECT DISTINCT k, t FROM s WHERE t > 3")
    text = without_times(str(told))
    assert "measured: 20 rows\n" in text
    assert "measured: 20 in, 16 out, f = 0.8, τ = #\n" in text
    assert "Distinct" in text
    assert "16 in, 16 out, f = 1, τ = #, # of state" in text


def test_the_plan_is_the_one_at_the_end() -> None:
    """Operators that were exchanged are shown, with the decision."""
    query = asked(JOIN.replace(" AND a.n < 60", ""))
    eager = Scheduling(adaptation=Adaptation(margin=1.0, agreeing=1, rows=1, share=float("inf")))
    analyzed = analyze(in_process(query.plan), ManualClock(), False, eager)
    kinds = [each.node.node.operator for each in analyzed.top.walk() if each.node is not None]
    assert [node.operator for node in analyzed.top.current.walk() if node.ports] == kinds
    measured = [each for each in analyzed.top.walk() if len(each.inputs) == 3]
    assert measured[0].most_kept > 0
    times = analyzed.stream_times()
    assert len(times) == 3
    assert all(each is not None and each > 0 for each in times)


def test_a_stream_without_tuples_takes_no_time() -> None:
    db = database()
    db.stream("none", [], schema="k INT, t INT", progress=ps.progress("t", delay=0))
    query = asked("SELECT a.t FROM a [RANGE 5], none [RANGE 5] WHERE a.k = none.k", db)
    assert "T = nothing a tuple" in query.explain(analyze=True)


def test_it_runs_what_ends() -> None:
    with pytest.raises(EngineError, match="the reference engine has none"):
        asked("SELECT k FROM s", _other()).explain(analyze=True)

    async def forever() -> AsyncIterator[dict[str, int]]:
        while True:
            yield {"t": 1}

    db = ps.connect("local")
    db.stream("s", forever(), schema="t INT", progress=ps.progress("t", delay=0))
    with pytest.raises(EngineError, match="may go on for ever"):
        asked("SELECT t FROM s", db).explain(analyze=True)


def _other() -> ps.Database:
    db = ps.connect("reference")
    db.stream("s", [{"k": 1}])
    return db


def test_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.jsonl").write_text('{"k": 1, "t": 1}\n{"k": 2, "t": 2}\n')
    script = tmp_path / "script.sql"
    script.write_text(
        f"CREATE STREAM s (k INT, t INT) FROM FILES '{tmp_path / 's.jsonl'}' PROGRESS ON t DELAY 0;"
        " SELECT k FROM s WHERE t > 1;"
    )
    with pytest.raises(SystemExit) as ended:
        app(["explain", str(script), "--analyze"])
    assert ended.value.code == 0
    assert "2 rows read, 1 written" in capsys.readouterr().out
