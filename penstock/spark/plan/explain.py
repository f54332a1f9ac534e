"""How a query is cut into Spark's stages, in words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import EngineError
from penstock.plan.query import QueryPlan
from penstock.plan.stateless import Scan
from penstock.spark.catalyst.reading import columns_read, narrowed
from penstock.spark.plan.config import makes_panes
from penstock.spark.plan.stages import Entry, Stage, entries_of_query
from penstock.spark.sources.dataframe import DataFrameSource


def explain_on_spark(query: QueryPlan, buckets: int) -> str:
    """
    >>> import penstock as ps
    >>> db = ps.connect("spark")
    >>> db.stream("s", [{"k": "a", "t": 3}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k")
    >>> print(explain_on_spark(query.plan, 4))
    On Spark
      stage 1: WindowAggregate in 4 buckets by s.k
        s: stamped and folded into panes before the shuffle
      then: Project
    """
    try:
        entries = entries_of_query(query, narrowed(query))
    except EngineError as error:
        return f"On Spark: {error.message}"
    return "\n".join(["On Spark", *_lines(query, entries, buckets)])


def _lines(query: QueryPlan, entries: tuple[Entry, ...], buckets: int) -> Iterator[str]:
    numbers: dict[int, int] = {}
    for entry in entries:
        if isinstance(entry.leaf, Stage):
            for stage in entry.leaf.stages():
                numbers[id(stage)] = len(numbers) + 1
                yield from _stage(query, stage, buckets, numbers)
        steps = ", ".join(_step(step) for step in entry.steps)
        if isinstance(entry.leaf, Scan):
            yield f"  {entry.leaf.stream.name}: {steps or 'as it is'}, without state"
            yield from _catalyst(entry.leaf, _all_by_catalyst(entry))
        elif steps:
            yield f"  then: {steps}"


def _stage(query: QueryPlan, stage: Stage, buckets: int, numbers: dict[int, int]) -> Iterator[str]:
    keys = ", ".join(map(str, stage.routing))
    where = f"{buckets} bucket{'s' * (buckets != 1)} by {keys}" if keys else "one bucket"
    yield f"  stage {numbers[id(stage)]}: {_named(stage)} in {where}"
    for entry in stage.entries:
        steps = [_step(step) for step in entry.steps]
        if isinstance(entry.leaf, Scan):
            how = "folded into panes" if makes_panes(stage, query.late) else "sent as rows"
            done = ", ".join(["stamped", *steps])
            yield f"    {entry.leaf.stream.name}: {done} and {how} before the shuffle"
            yield from _catalyst(entry.leaf, "progress follows from all rows, so none is left out")
        else:
            done = ", ".join(steps) or "as they are"
            yield f"    results of stage {numbers[id(entry.leaf)]}: {done}"


def _named(stage: Stage) -> str:
    return "InOrder" if isinstance(stage.node, QueryPlan) else type(stage.node).__name__


def _step(step: object) -> str:
    return type(step).__name__


def _catalyst(scan: Scan, what_else: str) -> Iterator[str]:
    """What Spark itself does for a stream that is a DataFrame."""
    if isinstance(scan.stream.source, DataFrameSource):
        frame = scan.stream.source.frame
        names, whole = columns_read(scan, frame), len(frame.columns)
        some = "all columns" if len(names) == whole else f"{', '.join(names)} of {whole} columns"
        yield f"      Catalyst reads {some}; {what_else}"


def _all_by_catalyst(entry: Entry) -> str:
    from penstock.spark.tasks.passing import plain  # needs PySpark, which explaining does not

    assert isinstance(entry.leaf, Scan)
    source = entry.leaf.stream.source
    if not isinstance(source, DataFrameSource):
        return ""
    rows = plain(entry, source.frame)
    if isinstance(rows, str):
        return f"the rest is done in Arrow, because {rows}"
    return "as a DataFrame, the query is Catalyst's as a whole"
