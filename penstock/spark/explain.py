"""EXPLAIN of the stages and paths that a query is cut into on Spark."""

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
from penstock.spark.stages import (
    SharedStages,
    Stage,
    StagePath,
    Step,
    TableStep,
    paths_of,
    scan_for,
)

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
    paths = paths_of(plan.root, None, SharedStages(nodes=frozenset(plan.shared)))
    asked = Counter(id(path.leaf) for path in _all_paths(paths))
    for path in paths:
        for stage in path.leaf.stages() if isinstance(path.leaf, Stage) else ():
            if id(stage) not in numbers:
                numbers[id(stage)] = len(numbers) + 1
                yield from _stage(stage, buckets, numbers, frames, asked[id(stage)])
        steps = ", ".join(_step(step) for step in path.steps)
        if isinstance(path.leaf, Scan):
            yield f"  {path.leaf.stream.name}: {steps or 'as it is'}, without state"
            yield from _catalyst(path.leaf, frames, _all_by_catalyst(path, frames))
        elif steps:
            yield f"  then: {steps}"
    in_turn = {stream.name for stream in read_in_turn(plan.query)}
    for stream, targets in _targets_by_stream(paths, numbers).items():
        if len(targets) > 1 and stream in in_turn:
            yield f"  {stream}: read {len(targets)} times, because rows are counted as they come"
        elif len(targets) > 1:
            row = ", in a row" if len(set(targets)) > 1 else ""
            to = " and ".join(dict.fromkeys(targets))
            yield f"  {stream}: read once for {len(targets)} ways to {to}{row}"


def _read_for_all(plan: PhysicalPlan, stream: StreamDefinition) -> Scan:
    scans = [node.logical for node in plan.root.walk() if isinstance(node.logical, Scan)]
    return scan_for([scan for scan in scans if scan.stream.name == stream.name], stream)


def _all_paths(paths: Iterable[StagePath]) -> Iterator[StagePath]:
    """Yield all paths out of a plan, and those into each stage once."""
    stages: dict[int, Stage] = {}
    for path in paths:
        yield path
        if isinstance(path.leaf, Stage):
            stages |= {id(stage): stage for stage in path.leaf.stages()}
    for stage in stages.values():
        yield from stage.paths


def _stage(
    stage: Stage, buckets: int, numbers: dict[int, int], frames: Frames, asked: int
) -> Iterator[str]:
    many = f", for {asked} who ask" if asked > 1 else ""
    yield f"  stage {numbers[id(stage)]}: {_named(stage)} in {_where(stage, buckets)}{many}"
    for path in stage.paths:
        steps = [_step(step) for step in path.steps]
        if isinstance(path.leaf, Scan):
            how = "folded into panes" if stage.makes_panes(path.port) else "sent as rows"
            done = ", ".join(["stamped", *steps])
            yield f"    {path.leaf.stream.name}: {done} and {how} before the shuffle"
            why = "progress follows from all rows, so none is left out"
            yield from _catalyst(path.leaf, frames, why)
        else:
            steps += ["folded into panes"] if stage.makes_panes(path.port) else []
            what = "tuples" if path.leaf.passes_tuples else "results"
            done = ", ".join(steps) or "as they are"
            yield f"    {what} of stage {numbers[id(path.leaf)]}: {done}"


def _targets_by_stream(paths: Iterable[StagePath], numbers: dict[int, int]) -> dict[str, list[str]]:
    """Ends of the paths of every stream: a stage, or the end."""
    targets: dict[str, list[str]] = {}
    seen: set[int] = set()
    for path in paths:
        if isinstance(path.leaf, Scan):
            targets.setdefault(path.leaf.stream.name, []).append("the end")
            continue
        for stage in path.leaf.stages():
            for each in stage.paths if id(stage) not in seen else ():
                if isinstance(each.leaf, Scan):
                    to = f"stage {numbers[id(stage)]}"
                    targets.setdefault(each.leaf.stream.name, []).append(to)
            seen.add(id(stage))
    return targets


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
    """Describe the work that Spark itself does for a stream that is a DataFrame."""
    found = frames.get(scan.stream.name)
    if found is not None:
        frame, reading = found
        names, whole = columns_read(reading, frame), len(frame.columns)
        some = "all columns" if len(names) == whole else f"{', '.join(names)} of {whole} columns"
        yield f"      Catalyst reads {some}; {what_else}"


def _all_by_catalyst(path: StagePath, frames: Frames) -> str:
    from penstock.spark.catalyst.plain_plans import plain

    assert isinstance(path.leaf, Scan)
    found = frames.get(path.leaf.stream.name)
    if found is None:
        return ""
    rows = plain(path, found[0])
    if isinstance(rows, str):
        return f"the rest is done in Arrow, because {rows}"
    return "as a DataFrame, the query is Catalyst's as a whole"
