"""What SHOW and DESCRIBE answer: the streams, tables, views and queries of a database, and their
columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.api.explanation import Explanation
from penstock.engine.live.status import QueryStatus
from penstock.model.domain import Domain
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import StreamDefinition
from penstock.sinks.text import write_table

_TEXT, _COUNT = pa.string(), pa.int64()
_RELATION = ("name", "kind", "columns", "source")


def list_streams(catalog: Catalog) -> Explanation:
    return _listed(_streams(catalog), [(name, _TEXT) for name in _RELATION])


def list_tables(catalog: Catalog) -> Explanation:
    """All that can stand in FROM, because others call all of it a table."""
    rows = [*_streams(catalog)]
    for kind, named in (("view", catalog.views), ("query", catalog.queries)):
        for name, plan in named.values():
            columns = str(plan.schema)
            rows.append({"name": name, "kind": kind, "columns": columns, "source": None})
    return _listed(rows, [(name, _TEXT) for name in _RELATION])


def list_views(catalog: Catalog) -> Explanation:
    rows = [{"name": name, "columns": str(plan.schema)} for name, plan in catalog.views.values()]
    return _listed(rows, [("name", _TEXT), ("columns", _TEXT)])


def list_columns(relation: StreamDefinition | QueryPlan) -> Explanation:
    """With what is known of the progress of each."""
    if isinstance(relation, QueryPlan):
        progress = {each.field.name: "progresses" for each in relation.progress}
    elif relation.progress is not None:
        domain = Domain(relation.attribute.type)
        progress = {relation.attribute.name: relation.progress.describe(domain)}
    else:
        progress = {}
    rows = [
        {"column": each.name, "type": str(each.type), "progress": progress.get(each.name)}
        for each in relation.schema
    ]
    return _listed(rows, [(name, _TEXT) for name in ("column", "type", "progress")])


def _streams(catalog: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "kind": each.word,
            "columns": str(each.declared),
            "source": None if each.source is None else each.source.describe(),
        }
        for each in catalog.streams.values()
    ]


def list_queries(catalog: Catalog) -> Explanation:
    """Those that have a name, and nothing to do."""
    rows = [{"name": name, "columns": str(plan.schema)} for name, plan in catalog.queries.values()]
    return _listed(rows, [("name", _TEXT), ("columns", _TEXT)])


LISTED: Mapping[str, Callable[[Catalog], Explanation]] = {
    "STREAMS": list_streams,
    "TABLES": list_tables,
    "VIEWS": list_views,
    "QUERIES": list_queries,
}
"""By the word behind SHOW."""


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
