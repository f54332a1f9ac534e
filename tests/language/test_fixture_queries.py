"""The fixture queries under the reference engine.

The expected rows were worked out from the definitions, apart from any engine: a small script that
steps through windows, pairs and ticks one by one, and the comment at the top of each file.
"""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.sinks.text import write_json_lines

FOLDER = Path(__file__).parents[1] / "fixtures" / "queries"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))
WITH_LATE = sorted(path.name.removesuffix(".late.jsonl") for path in FOLDER.glob("*.late.jsonl"))


def answered(name: str) -> ps.Query:
    """The one query of a file; the statements before it make streams."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    *streams, query = ps.connect("reference", strict=name != "null_time").script(text)
    assert not any(streams)
    assert isinstance(query, ps.Query)
    return query


def lines(table: pa.Table) -> list[str]:
    out = io.StringIO()
    write_json_lines(table, out)
    return out.getvalue().splitlines()


def expected(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def test_no_file_is_left_over() -> None:
    stems = {path.name.split(".")[0] for path in FOLDER.iterdir()}
    assert stems == set(NAMES)
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    assert Counter(lines(answered(name).collect())) == Counter(expected(f"{name}.jsonl"))


@pytest.mark.parametrize("name", WITH_LATE)
def test_late_tuples(name: str) -> None:
    query = answered(name)
    assert Counter(lines(query.late)) == Counter(expected(f"{name}.late.jsonl"))
    assert query.account.late == len(expected(f"{name}.late.jsonl"))


def test_in_order_means_in_the_order_of_the_windows() -> None:
    starts = answered("emit_in_order").collect()["window_start"].to_pylist()
    assert starts == sorted(starts)
    assert len(set(starts)) > 3


def test_a_tuple_without_a_time_is_kept_aside() -> None:
    account = answered("null_time").account
    assert (account.read, account.rejected) == (4, 1)
