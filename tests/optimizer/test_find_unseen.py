"""Columns that nobody looks at: which, and that nobody can tell."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.optimizer.optimize import optimize
from penstock.optimizer.rewrite import Settings

COUNT = 300
ROWS = [{"id": n % 7, "x": n % 5, "note": f"n{n % 11}", "tag": "g", "t": n} for n in range(COUNT)]
FROM = "FROM a [RANGE 20], b [RANGE 20] WHERE a.id = b.id"
PAIRS = "FROM a JOIN b ON a.id = b.id AND a.note = b.note"
RUNNING = "EMIT CHANGES"
QUERIES = {
    f"SELECT a.id, b.note {FROM}": [((2, 3), (3,))],
    f"SELECT * {FROM}": [],
    f"SELECT a.x, a.t {FROM} AND a.tag <= b.tag": [((2,), (2,))],
    f"SELECT a.id, b.note {FROM} LATE SIDE": [],
    f"SELECT a.tag {PAIRS} {RUNNING}": [((), (3,))],
    f"SELECT max(a.tag) AS m, b.x {PAIRS} GROUP BY b.x {RUNNING}": [((), (3,))],
    f"SELECT a.x FROM a LEFT JOIN b ON a.id = b.id {RUNNING}": [],  # rows are taken back by value
    f"SELECT DISTINCT b.tag, a.t {FROM}": [((2, 3), (2,))],
}


def database(engine: str) -> ps.Database:
    db = ps.connect(engine)
    for name in "ab":
        db.stream(name, ROWS, progress=ps.progress("t", delay=5))
    return db


@pytest.mark.parametrize("text", QUERIES)
def test_which(text: str) -> None:
    query = database("local").sql(text)
    assert isinstance(query, ps.Query)
    plan = optimize(query.plan, Settings())
    assert [node.unseen for node in plan.root.walk() if node.unseen] == QUERIES[text]


@pytest.mark.parametrize("text", QUERIES)
def test_nobody_can_tell(text: str) -> None:
    found = [database(engine).sql(text) for engine in ("local", "reference")]
    local, reference = (each.collect().to_pylist() for each in found if isinstance(each, ps.Query))
    assert sorted(map(repr, local)) == sorted(map(repr, reference))
    assert local


def test_not_even_other_queries_over_the_same_join() -> None:
    """What one query does not look at, another may."""
    texts = [f"SELECT a.id, b.t {FROM}", f"SELECT a.id, a.note, b.tag {FROM}"]
    db = database("local")
    queries = [each for each in map(db.sql, texts) if isinstance(each, ps.Query)]
    gathered: list[list[pa.RecordBatch]] = [[], []]
    db.run(queries, [each.append for each in gathered])
    for text, batches in zip(texts, gathered, strict=True):
        alone = database("reference").sql(text)
        assert isinstance(alone, ps.Query)
        together = pa.Table.from_batches(batches).to_pylist()
        assert sorted(map(repr, together)) == sorted(map(repr, alone.collect().to_pylist()))
