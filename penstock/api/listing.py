"""What SHOW answers: the streams and queries of a database."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.api.explanation import Explanation
from penstock.engine.live.status import QueryStatus
from penstock.plan.catalog import Catalog
from penstock.sinks.text import write_table

_TEXT, _COUNT = pa.string(), pa.int64()


def list_streams(catalog: Catalog) -> Explanation:
    rows = [
        {
            "name": each.name,
            "kind": each.word,
            "columns": str(each.schema),
            "source": None if each.source is None else each.source.describe(),
        }
        for each in catalog.streams.values()
    ]
    return _listed(rows, [(name, _TEXT) for name in ("name", "kind", "columns", "source")])


def list_queries(catalog: Catalog) -> Explanation:
    """Those that have a name, and nothing to do."""
    rows = [{"name": name, "columns": str(plan.schema)} for name, plan in catalog.queries.values()]
    return _listed(rows, [("name", _TEXT), ("columns", _TEXT)])


def list_running(queries: Sequence[QueryStatus]) -> Explanation:
    """Those of a live engine."""
    rows = [
        {
            "name": each.name,
            "state": each.state,
            "read": each.account.read,
            "late": each.account.late,
            "rejected": each.account.rejected,
            "rows": each.written,
            "open": each.open_windows,
            "waiting": each.waiting,
            "dropped": each.dropped,
            "error": None if each.error is None else each.error.partition("\n")[0],
        }
        for each in queries
    ]
    named = ("read", "late", "rejected", "rows", "open", "waiting", "dropped")
    counts = [(name, _COUNT) for name in named]
    return _listed(rows, [("name", _TEXT), ("state", _TEXT), *counts, ("error", _TEXT)])


def _listed(
    rows: Sequence[dict[str, Any]], columns: Sequence[tuple[str, pa.DataType]]
) -> Explanation:
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(list(columns)))
    out = io.StringIO()
    write_table(table, out)
    return Explanation(out.getvalue().rstrip("\n"), table)
