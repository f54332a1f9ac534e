"""How a query is cut into Spark's stages, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from penstock.optimizer.sharing import read_in_turn
from penstock.plan.nodes.node import Scan
from penstock.plan.nodes.query import QueryPlan
from penstock.plan.physical import PhysicalPlan
from penstock.plan.streams import StreamDefinition
from penstock.spark.sources.dataframe import DataFrameSource, columns_read
from penstock.spark.stages import Entry, InCommon, Stage, Step, TableStep, entries_of, scan_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frames: TypeAlias = dict[str, tuple["DataFrame", Scan]]  # by stream, with what is read of it


def explain_on_spark(plan: PhysicalPlan, buckets: int) -> str:
    """
    >>> import penstock as ps
    >>> db = ps.connect("spark")
    >>> db.stream("s", [{"k": "a", "t": 3}], progress=ps.progress("t", delay=5))
    >>> query = db.sql("SELECT k, count(*) AS n [RANGE 10, SLIDE 5, WA t] FROM s GROUP BY k")
    >>> print(explain_on_spark(query.physical, 4))
    On Spark
      stage 1: WindowAggregate in 4 buckets by s.k
        s: stamped and folded into panes before the shuffle
      then: Project
    """
    return "\n".join(["On Spark", *_lines(plan, buckets)])


def _lines(plan: PhysicalPlan, buckets: int) -> Iterator[str]:
    # the plan that is executed comes without its sources
    nodes = [node for node in plan.query.walk() if isinstance(node, Scan)]
    frames = {
        scan.stream.name: (scan.stream.source.frame, _read_for_all(plan, scan.stream))
        for scan in nodes
        if isinstance(scan.stream.source, DataFrameSource)
    }
    numbers: dict[int, int] = {}
    entries = entries_of(plan.root, None, InCommon(nodes=frozenset(plan.shared)))
    asked = Counter(id(entry.leaf) for entry in _entries(entries))
    for entry in entries:
        for stage in entry.leaf.stages() if isinstance(entry.leaf, Stage) else ():
            if id(stage) not in numbers:
                numbers[id(stage)] = len(numbers) + 1
                yield from _stage(stage, buckets, numbers, frames, asked[id(stage)])
        steps = ", ".join(_step(step) for step in entry.steps)
        if isinstance(entry.leaf, Scan):
            yield f"  {entry.leaf.stream.name}: {steps or 'as it is'}, without state"
            yield from _catalyst(entry.leaf, frames, _all_by_catalyst(entry, frames))
        elif steps:
            yield f"  then: {steps}"
    in_turn = {stream.name for stream in read_in_turn(plan.query)}
    for stream, ways in _ways(entries, numbers).items():
        if len(ways) > 1 and stream in in_turn:
            yield f"  {stream}: read {len(ways)} times, because rows are counted as they come"
        elif len(ways) > 1:
            row = ", in a row" if len(set(ways)) > 1 else ""
            to = " and ".join(dict.fromkeys(ways))
            yield f"  {stream}: read once for {len(ways)} ways to {to}{row}"


def _read_for_all(plan: PhysicalPlan, stream: StreamDefinition) -> Scan:
    scans = [node.logical for node in plan.root.walk() if isinstance(node.logical, Scan)]
    return scan_for([scan for scan in scans if scan.stream.name == stream.name], stream)


def _entries(ways: Iterable[Entry]) -> Iterator[Entry]:
    """All ways out of something, those into every stage once."""
    stages: dict[int, Stage] = {}
    for entry in ways:
        yield entry
        if isinstance(entry.leaf, Stage):
            stages |= {id(stage): stage for stage in entry.leaf.stages()}
    for stage in stages.values():
        yield from stage.entries


def _stage(
    stage: Stage, buckets: int, numbers: dict[int, int], frames: Frames, asked: int
) -> Iterator[str]:
    many = f", for {asked} who ask" if asked > 1 else ""
    yield f"  stage {numbers[id(stage)]}: {_named(stage)} in {_where(stage, buckets)}{many}"
    for entry in stage.entries:
        steps = [_step(step) for step in entry.steps]
        if isinstance(entry.leaf, Scan):
            how = "folded into panes" if stage.makes_panes(entry.port) else "sent as rows"
            done = ", ".join(["stamped", *steps])
            yield f"    {entry.leaf.stream.name}: {done} and {how} before the shuffle"
            why = "progress follows from all rows, so none is left out"
            yield from _catalyst(entry.leaf, frames, why)
        else:
            steps += ["folded into panes"] if stage.makes_panes(entry.port) else []
            what = "tuples" if entry.leaf.passes_tuples else "results"
            done = ", ".join(steps) or "as they are"
            yield f"    {what} of stage {numbers[id(entry.leaf)]}: {done}"


def _ways(entries: Iterable[Entry], numbers: dict[int, int]) -> dict[str, list[str]]:
    """By stream, where its tuples go."""
    ways: dict[str, list[str]] = {}
    seen: set[int] = set()
    for entry in entries:
        if isinstance(entry.leaf, Scan):
            ways.setdefault(entry.leaf.stream.name, []).append("the end")
            continue
        for stage in entry.leaf.stages():
            for each in stage.entries if id(stage) not in seen else ():
                if isinstance(each.leaf, Scan):
                    to = f"stage {numbers[id(stage)]}"
                    ways.setdefault(each.leaf.stream.name, []).append(to)
            seen.add(id(stage))
    return ways


def _where(stage: Stage, buckets: int) -> str:
    if stage.one_bucket:
        return "one bucket"
    number = f"{buckets} bucket{'s' * (buckets != 1)}"
    by = [str(port.slices or ", ".join(map(str, port.keys or ()))) for port in stage.physical.ports]
    return f"{number} by {' and '.join(by)}"


def _named(stage: Stage) -> str:
    return "InOrder" if isinstance(stage.node, QueryPlan) else type(stage.node).__name__


def _step(step: Step) -> str:
    return type(step.lookup if isinstance(step, TableStep) else step).__name__


def _catalyst(scan: Scan, frames: Frames, what_else: str) -> Iterator[str]:
    """What Spark itself does for a stream that is a DataFrame."""
    found = frames.get(scan.stream.name)
    if found is not None:
        frame, reading = found
        names, whole = columns_read(reading, frame), len(frame.columns)
        some = "all columns" if len(names) == whole else f"{', '.join(names)} of {whole} columns"
        yield f"      Catalyst reads {some}; {what_else}"


def _all_by_catalyst(entry: Entry, frames: Frames) -> str:
    from penstock.spark.catalyst.plain_plans import plain

    assert isinstance(entry.leaf, Scan)
    found = frames.get(entry.leaf.stream.name)
    if found is None:
        return ""
    rows = plain(entry, found[0])
    if isinstance(rows, str):
        return f"the rest is done in Arrow, because {rows}"
    return "as a DataFrame, the query is Catalyst's as a whole"
