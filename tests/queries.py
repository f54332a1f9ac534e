"""The fixture queries: every file holds streams and one query, beside it are the rows it has."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock.io.sinks.text import write_json_lines
from penstock.optimizer.rewrite import rewritten
from penstock.plan.nodes.node import Node, Scan
from penstock.runs.lookup_tables import AnswerSource
from tests.local.helpers import recut
from tests.reference.helpers import Row, bag, tuples

FOLDER = Path(__file__).parent / "fixtures" / "queries"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))


def is_strict(name: str) -> bool:
    """Whether a row that cannot take part is an error."""
    return name != "null_time"


def bound(name: str, cut: int | None = None, hint: str = "") -> ps.Query:
    """The query of a file, which the reference engine can answer, too; its streams are read in
    batches of `cut` rows."""
    db = ps.connect("reference", strict=is_strict(name), base=FOLDER)
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    if hint:
        head, select, tail = text.rpartition("SELECT")
        text = f"{head}{select} /*+ {hint} */{tail}"
    results = []
    for result in db.script(text):
        recut(db, cut)  # before the query is bound, which is the last statement
        results.append(result)
    query = results.pop()
    assert not any(results)
    assert isinstance(query, ps.Query)
    if cut is not None:
        query.plan = rewritten(query.plan, lambda node: _answers_cut(node, cut))
    return query


def _answers_cut(node: Node, cut: int) -> Node:
    """The rows of an answer over tables in batches of so many, too."""
    if not isinstance(node, Scan) or not isinstance(node.stream.source, AnswerSource):
        return node
    source = replace(node.stream.source, batch=cut)
    return replace(node, stream=replace(node.stream, source=source))


def lines(table: pa.Table) -> Counter[str]:
    """The rows of a table as they stand in files."""
    out = io.StringIO()
    write_json_lines(table, out)
    return Counter(out.getvalue().splitlines())


def expected(name: str) -> Counter[str]:
    return Counter((FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())


@cache
def late_schema_and_rows(name: str) -> tuple[pa.Schema, list[Row]]:
    """The late tuples of a query by definition."""
    late = bound(name).late
    return late.schema, bag(tuples(late))


def assert_late(name: str, found: pa.Table | None) -> None:
    schema, rows = late_schema_and_rows(name)
    assert bag(tuples(found) if found is not None else []) == rows
    if found is not None and found.num_rows:
        assert found.schema.names == schema.names
        assert found.schema.types == schema.types
