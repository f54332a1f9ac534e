"""`penstock run`: what is run, and where rows and everything else go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

ROWS = "SELECT k, v FROM s"
COUNT = "SELECT count(*) AS n [RANGE TUMBLING 1 MINUTE, WA ts] FROM s"
DEDUPLICATED = "SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) = 1"
EXPECTED = {
    "table": "k        v\n────  ────\na        1\nNULL     3\nd     NULL\n(3 rows)\n",
    "jsonl": '{"k": "a", "v": 1}\n{"k": null, "v": 3}\n{"k": "d", "v": null}\n',
    "csv": "k,v\na,1\n,3\nd,\n",
}
REPORT = """\
2 rows kept aside:
  s: readings.csv, row 2, column v: 'x' is not an INT
  s: readings.csv, row 4, column ts: ts is NULL
"""
Run = Callable[..., Any]


@pytest.mark.parametrize("output_format", EXPECTED)
def test_rows_to_standard_output_and_the_rest_to_standard_error(
    script: Run, output_format: str
) -> None:
    outcome = script(ROWS, "--format", output_format)
    assert outcome == (0, EXPECTED[output_format], REPORT)


def test_a_table_unless_told_otherwise(script: Run) -> None:
    assert script(ROWS).out == EXPECTED["table"]


@pytest.mark.parametrize("output_format", EXPECTED)
def test_rows_to_a_file(script: Run, here: Path, output_format: str) -> None:
    outcome = script(ROWS, "--format", output_format, "--output", "result")
    assert outcome == (0, "", REPORT)
    assert (here / "result").read_text(encoding="utf-8") == EXPECTED[output_format]
    assert sorted(each.name for each in here.iterdir()) == ["readings.csv", "result"]


@pytest.mark.parametrize(
    ("name", "output_format"),
    [("result.csv", "csv"), ("result.JSONL", "jsonl"), ("result.txt", "table")],
)
def test_the_name_of_a_file_tells_the_format(
    script: Run, here: Path, name: str, output_format: str
) -> None:
    assert script(ROWS, "--output", name).code == 0
    assert (here / name).read_text(encoding="utf-8") == EXPECTED[output_format]


def test_a_format_that_was_asked_for_counts_more_than_a_name(script: Run, here: Path) -> None:
    assert script(ROWS, "--format", "csv", "--output", "result.parquet").err == REPORT
    assert (here / "result.parquet").read_text(encoding="utf-8") == EXPECTED["csv"]


def test_a_name_without_an_ending_gets_a_table(script: Run, here: Path) -> None:
    assert script(ROWS, "--output", "result").code == 0
    assert (here / "result").read_text(encoding="utf-8") == EXPECTED["table"]


def test_a_directory_wants_a_checkpoint(script: Run, here: Path) -> None:
    (here / "there").mkdir()
    for name in ("results/", "there"):
        outcome = script(ROWS, "--output", name)
        assert outcome.code == 1
        assert f"{name} is a directory, and without a checkpoint rows go to one file" in outcome.err
    assert not (here / "results").exists()


def test_an_ending_that_tells_nothing(script: Run, here: Path) -> None:
    outcome = script(ROWS, "--output", "result.xlsx")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.splitlines() == [
        "error: the ending of result.xlsx does not tell a format",
        "  expected: one of .jsonl, .json, .ndjson, .csv, .parquet, .pq, .txt",
        "  try: --format table|jsonl|csv|parquet",
    ]
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


def test_parquet(script: Run, here: Path) -> None:
    rows = {"k": ["a", None, "d"], "v": [1, 3, None]}
    assert script(ROWS, "--format", "parquet", "--output", "result").code == 0
    assert pq.read_table(here / "result").to_pydict() == rows
    assert script(ROWS, "--output", "result.parquet").code == 0
    assert pq.read_table(here / "result.parquet").to_pydict() == rows
    outcome = script(ROWS, "--format", "parquet")
    assert (outcome.code, outcome.out) == (1, "")
    assert "Parquet is not for the terminal" in outcome.err


def test_json_lines_exactly(script: Run) -> None:
    sql = (
        "CREATE STREAM all_of_it (t TIMESTAMP, d DATE, i BIGINT, n DECIMAL(9,3), f DOUBLE,"
        " b BOOLEAN, s STRING, x BINARY) FROM VALUES"
        " ('2026-01-31 23:59:59', '2026-01-31', 9007199254740993, 1.5, 0.1, TRUE, 'a\"ü', '00ff'),"
        " (NULL, NULL, NULL, NULL, 'nan', NULL, NULL, NULL); SELECT * FROM all_of_it"
    )
    assert script(sql, "--format", "jsonl").out == (
        '{"t": "2026-01-31T23:59:59.000000Z", "d": "2026-01-31", "i": 9007199254740993,'
        ' "n": 1.500, "f": 0.1, "b": true, "s": "a\\"ü", "x": "00ff"}\n'
        '{"t": null, "d": null, "i": null, "n": null, "f": "NaN", "b": null, "s": null,'
        ' "x": null}\n'
    )


# --- what is run ---------------------------------------------------------------------------------


def test_several_selects_one_after_the_other(script: Run) -> None:
    outcome = script(
        "SELECT k FROM s WHERE v = 1; SELECT v FROM s WHERE v = 3", "--format", "jsonl"
    )
    assert (outcome.code, outcome.out) == (0, '{"k": "a"}\n{"v": 3}\n')
    assert outcome.err == REPORT * 2


def test_named_queries_if_there_is_no_select(script: Run) -> None:
    queries = "CREATE QUERY q AS SELECT k FROM s WHERE v = 1; CREATE QUERY r AS SELECT v FROM s"
    assert script(queries, "--format", "jsonl").out == (
        '{"k": "a"}\n{"v": 1}\n{"v": 3}\n{"v": null}\n'
    )
    # a SELECT says itself what is wanted
    assert script(queries + "; SELECT k FROM q", "--format", "jsonl").out == '{"k": "a"}\n'


@pytest.mark.parametrize("text", ["", " \n", ";;", "-- nothing", "CREATE STREAM s (a INT)"])
def test_nothing_to_run(penstock: Run, here: Path, text: str) -> None:
    (here / "script.sql").write_text(text)
    expected = (0, "", "nothing to run: the script has no SELECT\n")
    assert penstock("run", "script.sql") == expected
    assert penstock("run", "-", stdin=text) == expected


def test_a_script_in_a_file(penstock: Run, here: Path) -> None:
    (here / "script.sql").write_text(
        "CREATE STREAM x (a STRING) FROM VALUES ('ü'); SELECT a FROM x", encoding="utf-8"
    )
    assert penstock("run", "script.sql", "--format", "csv") == (0, "a\nü\n", "")


def test_a_script_with_a_byte_order_mark(penstock: Run, here: Path) -> None:
    (here / "script.sql").write_text(
        "CREATE STREAM x (a INT) FROM VALUES (1); SELECT a FROM x", encoding="utf-8-sig"
    )
    assert penstock("run", "script.sql", "--format", "csv") == (0, "a\n1\n", "")


def test_explain_among_selects(script: Run) -> None:
    sql = "EXPLAIN SELECT k FROM s; SELECT v FROM s WHERE v = 1"
    outcome = script(sql)
    assert outcome.out.startswith("Query LATE DROP\n│  schema: k STRING\n")
    assert outcome.out.endswith("\nv\n─\n1\n(1 row)\n")
    lines = [json.loads(line) for line in script(sql, "--format", "jsonl").out.splitlines()]
    assert lines[0] == {"plan": "Query LATE DROP"}
    assert lines[-1] == {"v": 1}


def test_explain_reads_nothing(penstock: Run) -> None:
    text = "CREATE STREAM n (a INT) FROM FILES 'nowhere.csv'; EXPLAIN SELECT a FROM n"
    outcome = penstock("run", "-", stdin=text)
    assert outcome.code == 0
    assert "source: FILES 'nowhere.csv' FORMAT CSV" in outcome.out
    assert outcome.err == ""


# --- late and rejected ---------------------------------------------------------------------------


def test_strict_stops_at_the_first_bad_row(script: Run, here: Path) -> None:
    outcome = script(ROWS, "--strict", "--output", "result", "--rejected", "rejected")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(
        "error: stream s: readings.csv, row 2, column v: 'x' is not an INT\n"
    )
    assert [each.name for each in here.iterdir()] == ["readings.csv"]


def test_late_tuples_are_counted(script: Run) -> None:
    for late, words in (
        ("", "left out of the windows it missed"),
        (" LATE SIDE", "kept aside"),
        (" LATE AMEND", "counted all the same"),
    ):
        outcome = script(COUNT + late, "--format", "jsonl")
        counts = [json.loads(line)["n"] for line in outcome.out.splitlines()]
        assert counts == ([2, 1] if "AMEND" in late else [1, 1])
        assert outcome.err.splitlines()[0].startswith("1 late tuple among 5 rows, ")
        assert outcome.err.splitlines()[0].endswith(words)


def test_late_and_rejected_files(script: Run, here: Path) -> None:
    outcome = script(COUNT, "--late", "late.jsonl", "--rejected", "rejected.jsonl")
    assert outcome.code == 0
    (late,) = map(json.loads, (here / "late.jsonl").read_text().splitlines())
    assert (late["k"], late["ts"], late["late_bound"]) == (
        "d",
        "2026-01-31T12:00:30.000000Z",
        "2026-01-31T12:02:00.000000Z",
    )
    assert late["missed_first"] == late["missed_last"]
    rejected = list(map(json.loads, (here / "rejected.jsonl").read_text().splitlines()))
    assert [(each["row"], each["column"], each["kind"]) for each in rejected] == [
        (2, "v", "bad row"),
        (4, "ts", "no progress value"),
    ]
    assert json.loads(rejected[0]["content"]) == {"k": "b", "v": "x", "ts": "2026-01-31 12:00:20"}


def test_late_and_rejected_files_of_a_clean_run_are_empty(script: Run, here: Path) -> None:
    (here / "readings.csv").write_text("k,v,ts\na,1,2026-01-31\n")
    assert script(COUNT, "--late", "late", "--rejected", "rejected").err == ""
    assert (here / "late").read_bytes() == (here / "rejected").read_bytes() == b""


def test_many_bad_rows_are_counted_but_not_all_shown(script: Run, here: Path) -> None:
    (here / "readings.csv").write_text("k,v,ts\n" + "a,x,2026-01-31\n" * 1_234)
    lines = script(ROWS).err.splitlines()
    assert lines[0] == "1,234 rows kept aside:"
    assert lines[-2:] == [
        "  … and 1,231 more (--rejected FILE)",
        "most rows of s were rejected for its column v: is its type the right one?",
    ]
    assert len(lines) == 6
    lines = script(ROWS, "--rejected", "bad.jsonl").err.splitlines()
    assert lines[-2] == "  … and 1,231 more (all are in bad.jsonl)"


def test_what_is_late_where_there_are_no_windows(script: Run) -> None:
    (line, *_) = script(DEDUPLICATED, "--format", "jsonl").err.splitlines()
    assert line == "1 late tuple among 5 rows, left out"
