"""Presentation of queries and answers: EXPLAIN, SHOW, tables, notebooks, other frames, stalls."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.io.sinks.text import write_table
from penstock.local.live.queries import QueryStatus
from penstock.model.punctuation import BEGINNING, END
from penstock.model.ticks import Domain
from penstock.model.types import Kind, Schema
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.streams import StreamDefinition
from penstock.runs.status import SourceStatus, names_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of EXPLAIN, SHOW or DESCRIBE: a text, and a table if its columns differ from the
    lines of the text."""

    text: str
    shown: pa.Table | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def table(self) -> pa.Table:
        if self.shown is not None:
            return self.shown
        return pa.table({"plan": self.text.splitlines()})


# Queries and their answers as tables, in notebooks, and as other frames.

_LINE = 60  # characters of a query that stand for it


def shortened(text: str) -> str:
    """Shorten the text of a query to one line.

    >>> shortened("SELECT a\\nFROM s")
    'SELECT a FROM s'
    """
    return shorten(text, _LINE, placeholder=" …")


def show(answer: pa.Table, limit: int) -> None:
    """Print the first rows of an answer."""
    write_table(answer.slice(0, max(0, limit)), sys.stdout)
    if answer.num_rows > limit:
        print("there are more")


def show_first(batches: Iterator[pa.RecordBatch], schema: pa.Schema, limit: int) -> None:
    """Print the first rows that are released, and wait for no more than those."""
    kept: list[pa.RecordBatch] = []
    missing = max(0, limit)
    while missing and (batch := next(batches, None)) is not None:
        kept.append(batch.slice(0, missing))
        missing -= kept[-1].num_rows
    write_table(pa.Table.from_batches(kept, schema), sys.stdout)
    if not missing:
        print("there may be more")


def html_of(name: str | None, text: str, schema: Schema, engine: str) -> str:
    title = " ".join(["penstock.Query", *([escape(name)] if name else []), f"on {escape(engine)}"])
    rows = "".join(
        f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>"
        for field in schema
    )
    asked = f"<pre>{escape(text.strip())}</pre>" if text.strip() else ""
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<div><strong>{title}</strong>{asked}<table>{head}{rows}</table></div>"


def to_pandas(table: pa.Table) -> pd.DataFrame:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise _missing("pandas", "to_pandas") from error


def to_polars(table: pa.Table) -> pl.DataFrame:
    try:
        import polars
    except ImportError as error:
        raise _missing("polars", "to_polars") from error
    return polars.DataFrame(table)


def _missing(library: str, method: str) -> PenstockError:
    return PenstockError(
        f"{method} needs {library}, which is not installed",
        hint=f"pip install {library}; collect() gives an Arrow table without it",
    )


# Results of SHOW and DESCRIBE: the streams, tables, views and queries of a database, and their
# columns.

_TEXT, _COUNT = pa.string(), pa.int64()
_RELATION = ("name", "kind", "columns", "source")


def list_streams(catalog: Catalog) -> Explanation:
    return _listed(_streams(catalog), [(name, _TEXT) for name in _RELATION])


def list_tables(catalog: Catalog) -> Explanation:
    """List everything that can stand in FROM, all of which other systems call tables."""
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
    """List columns, with their progress."""
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
    """List the named queries of a database, which are not running."""
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
    """List the queries of a live engine, with their states."""
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


# Stalls: the source that holds back a window, in words.

_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000)  # days to milliseconds


def explain_stall(sources: Sequence[SourceStatus], streams: Mapping[str, StreamDefinition]) -> str:
    """Name the source that holds back the oldest open window, and what would help."""
    found = [each for each in sources if not each.ended]
    if not found:
        return "nothing is held back" if sources else "nothing has been read yet"
    slowest = min(found, key=lambda each: each.low)
    stream = streams[slowest.stream]
    if stream.progress is None:
        return f"stream {stream.name} makes no promises; nothing waits for it"
    domain = Domain(stream.attribute.type)
    who = names_of(slowest.waits_for, slowest.waits_for_others) or "its only source"
    others = _ahead_of(slowest, found, domain)
    if slowest.low == BEGINNING:
        silent = [each.stream for each in found if each.low == BEGINNING]
        if len(silent) > 1:
            return f"streams {', '.join(silent)} have promised nothing yet{others}"
        return f"stream {stream.name} has promised nothing yet: it waits for {who}{others}"
    at = domain.format(int(slowest.low))
    behind = _about(int(slowest.high) - int(slowest.low), domain)
    idle = stream.progress.policy.idle_after
    advice = (
        "it is left out when it has been silent for as long as IDLE AFTER says"
        if idle is not None
        else "IDLE AFTER would leave it out when it is silent"
    )
    return (
        f"windows that end after {at} are open: stream {stream.name} waits for {who},"
        f" which is {behind} behind the highest value; {advice}{others}"
    )


def _ahead_of(slowest: SourceStatus, all_of_them: Sequence[SourceStatus], domain: Domain) -> str:
    """Name the streams that are ahead of the slowest, and how far: their tuples are kept until
    then."""
    told = []
    for each in all_of_them:
        if each.low <= slowest.low or each.low == END:
            continue
        if slowest.low == BEGINNING:
            told.append(f"{each.stream} has come to {each.low_text}")
        else:
            told.append(f"{each.stream} is {_about(int(each.low - slowest.low), domain)} ahead")
    return f"; {', '.join(told)}" if told else ""


def _about(ticks: int, domain: Domain) -> str:
    """Round a length for a message: microseconds of a day are of no use to a reader.

    >>> from penstock.model.types import TIMESTAMP
    >>> _about(984_779, Domain(TIMESTAMP)), _about(5_000_000, Domain(TIMESTAMP))
    ('about 984 MILLISECONDS', '5 SECONDS')
    """
    if domain.type.kind is Kind.TIMESTAMP:
        unit = next((each for each in _UNITS if ticks >= 10 * each), 1)
        if ticks % unit:
            return f"about {domain.format_length(ticks - ticks % unit)}"
    return domain.format_length(ticks)
