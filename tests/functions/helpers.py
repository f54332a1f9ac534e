"""What the tests of scalar functions share."""

from __future__ import annotations

from typing import Any

import penstock as ps


def answer(expression: str) -> Any:
    """What the reference engine says to an expression over one tuple."""
    db = ps.connect("reference")
    query = db.sql(
        "CREATE STREAM one (x BIGINT, f DOUBLE, s STRING, b BOOLEAN, t TIMESTAMP, d DATE)"
        " FROM VALUES (2, 2.5, 'abc', TRUE, '2026-01-31 12:30:00', '2026-01-31');"
        f"SELECT {expression} AS answer FROM one"
    )
    assert isinstance(query, ps.Query)
    rows = query.collect()
    assert rows.schema == query.schema
    return rows.to_pylist()[0]["answer"]
