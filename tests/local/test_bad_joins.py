"""Joins of inputs that are empty, of one row, without keys or all of one key: the answers of the
reference; and however many partners a tuple has, results leave in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.kernel.batch import Batch
from penstock.kernel.joins.lookup import AT_ONCE, LookupOperator
from penstock.plan.nodes.join import Lookup
from tests.local.helpers import assert_same
from tests.reference.helpers import Stream

SCHEMA = "k STRING, n INT, t INT"
DELAY = ps.progress("t", delay=3)
BAND = "l.k = r.k AND r.t BETWEEN l.t - 2 AND l.t + 4"
JOINS = [
    *(
        f"SELECT l.n, l.t, r.n, r.t FROM l {kind}JOIN r ON {BAND}"
        for kind in ("", "LEFT ", "RIGHT ")
    ),
    f"SELECT l.n, r.n FROM l FULL JOIN r ON {BAND}",
    *(f"SELECT l.n, l.t FROM l {kind} JOIN r ON {BAND}" for kind in ("SEMI", "ANTI")),
    "SELECT l.n, r.n FROM l, r WHERE r.t BETWEEN l.t - 2 AND l.t + 4",
    f"SELECT /*+ SYNC_FILTER */ l.n, r.n FROM l JOIN r ON {BAND}",
    f"SELECT /*+ OPIB */ l.n, r.n FROM l JOIN r ON {BAND}",
    "SELECT n FROM l [RANGE 5, WA t] EXCEPT ON (k) r [RANGE 4, WA t]",
    "SELECT * FROM SEQUENCE(l THEN r MODE RECENT ON l.k = r.k KEEP SECOND)",
    "SELECT * FROM SEQUENCE(l THEN r MODE CHRONICLE ON l.k = r.k)",
    "SELECT n FROM l WHERE k NOT IN (SELECT k FROM r WHERE r.t BETWEEN l.t AND l.t + 4)",
]
INPUTS: dict[str, list[Any]] = {
    "nothing": [],
    "one row": [("a", 1, 5)],
    "no keys": [(None, n, n) for n in range(4)],
    "no time": [("a", 1, None)],
    "one key": [("a", n, n // 2) for n in range(8)],
}


@pytest.mark.parametrize("left", INPUTS)
@pytest.mark.parametrize("right", INPUTS)
def test_inputs_of_which_little_is_to_be_had(left: str, right: str) -> None:
    for sql in JOINS:
        l_, r_ = (Stream(SCHEMA, INPUTS[each], DELAY) for each in (left, right))
        assert_same(sql, (1,), l=l_, r=r_)


MANY = 300_000


def many(**columns: Any) -> pa.Table:
    return pa.table({"k": np.zeros(MANY, np.int64), "y": np.arange(MANY), **columns})


def pieces(db: ps.Database, sql: str) -> list[int]:
    """How large the batches are that a query gives."""
    query = db.sql(sql)
    assert isinstance(query, ps.Query)
    sizes: list[int] = []
    query.run(lambda batch: sizes.append(batch.num_rows))
    return sizes


def stream_with_partners(db: ps.Database) -> None:
    one = pa.table({"k": [0, 0], "x": [1, 2], "t": [10, 11]})
    db.stream("one", one, progress=ps.progress("t", delay=2))
    times = np.arange(MANY) // 20_000
    db.stream("many", many(t=times), progress=ps.progress("t", delay=2))


@pytest.mark.parametrize("hint", ["", "/*+ OPIB */ ", "/*+ FILTER_ORDER */ "])
def test_very_many_partners(hint: str) -> None:
    db = ps.connect("local")
    stream_with_partners(db)
    sql = f"SELECT {hint}x, y FROM one JOIN many ON one.k = many.k"
    sizes = pieces(db, f"{sql} AND many.t BETWEEN one.t - 20 AND one.t + 20")
    assert sum(sizes) == 2 * MANY
    assert max(sizes) <= AT_ONCE


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_very_many_rows_of_a_table(kind: str) -> None:
    db = ps.connect("local")
    db.stream("one", pa.table({"k": [0, 5, 0], "x": [1, 2, 3]}))
    db.table("many", many())
    sizes = pieces(db, f"SELECT x, y FROM one {kind} many ON one.k = many.k")
    assert sum(sizes) == 2 * MANY + (kind == "LEFT JOIN")
    assert max(sizes) <= AT_ONCE


def test_pairs_are_made_as_they_are_taken() -> None:
    """What has been taken need not be there any more when the next piece is made."""
    db = ps.connect("local")
    db.stream("one", pa.table({"k": [0], "x": [1]}))
    db.table("many", many())
    query = db.sql("SELECT x, y FROM one JOIN many ON one.k = many.k")
    assert isinstance(query, ps.Query)
    (lookup,) = (node for node in query.plan.walk() if isinstance(node, Lookup))
    operator = LookupOperator(lookup)
    operator.fill(many().combine_chunks().to_batches()[0])
    lots = pa.RecordBatch.from_pydict({"k": np.zeros(10_000, np.int64), "x": np.arange(10_000)})
    first = next(iter(operator.on_batch(0, Batch(lots))))  # of three billion pairs
    assert isinstance(first, Batch)
    assert first.num_rows == AT_ONCE


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("a.k = n.k AND n.t BETWEEN a.t AND a.t + 9", "cannot compare a STRING and an INT"),
        ("a.k = b.k", "tuples of a and b would be kept for ever"),
        ("a.k = b.k AND b.t > a.t", "so tuples of a would be kept for ever"),
        ("a.k = b.k AND b.t < a.t", "so tuples of b would be kept for ever"),
    ],
)
def test_what_is_refused(condition: str, message: str) -> None:
    db = ps.connect("local")
    for name, key in (("a", "STRING"), ("b", "STRING"), ("n", "INT")):
        db.sql(f"CREATE STREAM {name} (k {key}, t INT) PROGRESS ON t DELAY 5")
    other = "n" if "n.k" in condition else "b"
    with pytest.raises(ps.BindError, match=message):
        db.sql(f"SELECT a.t FROM a JOIN {other} ON {condition}")


def silent(rows: list[dict[str, Any]]) -> Callable[[], Any]:
    async def source() -> Any:
        for row in rows:
            yield row

    return source


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("right", [[], [{"k": "a", "t": 4}]])
def test_live_inputs_that_end_without_a_word(kind: str, right: list[dict[str, Any]]) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"l": [{"k": "a", "t": 3}], "r": right}
    found = []
    for live in (True, False):
        db = ps.connect("local" if live else "reference")
        for name, given in rows.items():
            data = silent(given) if live else given
            db.stream(name, data, schema="k STRING, t INT", progress=DELAY)
        query = db.sql(f"SELECT l.t AS t, r.t AS u FROM l {kind} r ON l.k = r.k AND r.t = l.t + 1")
        assert isinstance(query, ps.Query)
        found.append(query.collect().to_pylist())
    assert found[0] == found[1]
